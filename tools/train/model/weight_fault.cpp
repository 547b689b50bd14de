#include "tools/train/model/weight_fault.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "framework/tensor/host_read.h"
#include "tools/train/process/planted_fault.h"

namespace hexad::train {

using namespace autograd;
using namespace base;
using namespace tensor;
namespace {

// Sets a weight of the last parameter to NaN, because the loss of every token depends on this parameter.
void ruin_a_weight(ModelInstance& instance) {
  Parameter& p = **std::prev(instance.parameters.end());
  const Tensor owned = p.owned_weights();
  kernels::kernels(instance.device())
      .pointwise.fill(instance.context.compute(), owned.slice(0, 0, std::min<int64_t>(1, owned.numel())),
                      std::numeric_limits<double>::quiet_NaN());
}

// Flips the last bit of each of the first `count` weights of `p` that this rank owns.
void flip_bits(Parameter& p, ModelInstance& instance, int64_t count) {
  const Tensor owned = p.owned_weights(), known = copy_to_host("fault", owned, instance.context.compute());
  for (int64_t i = 0; i < std::min(count, owned.numel()); ++i)
    *(static_cast<uint8_t*>(known.raw()) + i * size_of(owned.dtype())) ^= 1;
  upload_from(known, owned);
}

void flip_a_bit(ModelInstance& instance) { flip_bits(**std::prev(instance.parameters.end()), instance, 1); }

// Changes the last bit of all weights of `p` that this rank owns, like a difference in rounding. The effect on a run
// shows how much results of different layouts may differ.
void move_by_one_ulp(Parameter& p, ModelInstance& instance) {
  flip_bits(p, instance, std::numeric_limits<int64_t>::max());
}

}  // namespace

void inject_weight_fault(int rank, int64_t step, ModelInstance& instance) {
  const auto f = fault_of_step(rank, step);
  if (!f) return;
  instance.weights.complete(instance.context.compute());  // updates and gathers use the weights
  if (f->kind == "flip") flip_a_bit(instance);
  if (f->kind == "ulp") move_by_one_ulp(**instance.parameters.begin(), instance);
  if (f->kind == "nan") ruin_a_weight(instance);
}

void inject_gradient_fault(int rank, int64_t step, ModelInstance& instance) {
  const auto f = fault_from_environment();
  if (!f || f->kind != "gradient" || rank < f->rank || step < f->step) return;
  Stream& stream = instance.context.compute();
  for (const auto& p : instance.parameters)
    if (p->trainable() && p->name().find(f->point) != std::string::npos)
      kernels::kernels(instance.device())
          .pointwise.scale(stream, p->owned_gradient(stream), instance.mesh.size(Axis::ep));
}

}  // namespace hexad::train
