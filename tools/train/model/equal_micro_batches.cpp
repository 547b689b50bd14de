#include "tools/train/model/equal_micro_batches.h"

#include "framework/base/error.h"

namespace hexad::train {

using layers::MicroBatch;
using tensor::Tensor;

namespace {

// Calls f(tensor) for each tensor of a micro-batch, in the order in which make_micro_batch() makes them.
template <class F>
void for_each_tensor(MicroBatch& b, const F& f) {
  for (Tensor* t : {&b.ids, &b.positions, &b.first, &b.last, &b.chunk_first, &b.chunk_last, &b.targets}) f(*t);
  for (MicroBatch::Further& further : b.further) f(further.ids), f(further.targets);
  f(b.valid);
}

}  // namespace

EqualMicroBatches::EqualMicroBatches(const MicroBatch& like) : without_tensors_(like) {
  for_each_tensor(without_tensors_, [&](Tensor& t) {
    tensors_.push_back({t.shape(), t.dtype(), t.defined()});
    t = {};
  });
}

MicroBatch EqualMicroBatches::make(int64_t first_sequence, device::Device device) const {
  base::require(device.context().meta() != nullptr, "[micro-batch] a micro-batch without values is made on device ",
                device::name_of(device.kind()), "; expected meta");
  MicroBatch out = without_tensors_;
  out.first_token = first_sequence * out.length;
  auto sizes = tensors_.begin();
  for_each_tensor(out, [&](Tensor& t) {
    const auto& [shape, dtype, defined] = *sizes++;
    if (!defined) return;
    t = Tensor::empty(shape, dtype, device, device::Category::activation);
    t.upload(nullptr);
  });
  return out;
}

}  // namespace hexad::train
