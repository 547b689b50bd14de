// Micro-batches with equal sequences on a meta device.
#pragma once

#include <vector>

#include "layers/base/micro_batch.h"

namespace hexad::train {

/// Makes copies of a micro-batch on a meta device without reading tokens. The copies differ only in
/// MicroBatch::first_token. Their tensors have the sizes of the original tensors and are uploaded as in
/// make_micro_batch(), but have no values.
class EqualMicroBatches {
 public:
  explicit EqualMicroBatches(const layers::MicroBatch& like);

  /// Returns the micro-batch that begins with sequence `first_sequence`, on the meta device `device`.
  layers::MicroBatch make(int64_t first_sequence, device::Device device) const;

 private:
  struct Sizes {
    tensor::Shape shape;
    base::Dtype dtype;
    bool defined;
  };
  layers::MicroBatch without_tensors_;
  std::vector<Sizes> tensors_;  // in the order of for_each_tensor()
};

}  // namespace hexad::train
