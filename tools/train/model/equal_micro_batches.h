// Micro-batches with equal sequences on a meta device.
#pragma once

#include <vector>

#include "layers/base/micro_batch.h"

namespace hexad::train {

/// Makes micro-batches like a given one, without reading tokens. They differ only in MicroBatch::first_token. Their
/// tensors have the same sizes, and are copied to a meta device like those of make_micro_batch(), but their values are
/// unknown.
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
