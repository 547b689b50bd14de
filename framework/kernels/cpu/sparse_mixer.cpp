#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

/// Softmax of one slot of a token. The candidates of a slot are the experts that no earlier slot has. The softmax is
/// over the slot's expert and the candidates whose logits are within the tolerance of the best candidate's logit.
template <class A>
class NearSoftmax {
 public:
  /// Computes the softmax of slot `slot`. `ids` are the experts of the token's slots.
  NearSoftmax(const A* logits, int64_t experts, const int32_t* ids, int64_t slot, A tolerance)
      : logits_(logits), experts_(experts), ids_(ids), slot_(slot), tolerance_(tolerance) {
    for (int64_t e = 0; e < experts_; ++e)
      if (is_candidate(e)) best_ = std::max(best_, logits_[e]);
    for_each([&](int64_t, A power) { sum_ += power; });
  }

  /// Calls f(expert, exp(logit - best)) for the near candidates and the slot's expert.
  template <class F>
  void for_each(F&& f) const {
    for (int64_t e = 0; e < experts_; ++e) {
      const bool far = best_ - logits_[e] > tolerance_ * std::max(std::abs(logits_[e]), best_);
      if (e == ids_[slot_] || (!far && is_candidate(e))) f(e, std::exp(logits_[e] - best_));
    }
  }
  A sum() const { return sum_; }
  /// Returns the probability of the slot's expert.
  A weight() const { return std::exp(logits_[ids_[slot_]] - best_) / sum_; }

 private:
  bool is_candidate(int64_t expert) const { return std::find(ids_, ids_ + slot_, expert) == ids_ + slot_; }

  const A* logits_;
  int64_t experts_;
  const int32_t* ids_;
  int64_t slot_;
  A tolerance_, best_ = -std::numeric_limits<A>::infinity(), sum_ = 0;
};

void forward(Stream& stream, const Tensor& weights, const Tensor& logits, const Tensor& ids, double tolerance) {
  stream.run([=] {
    const int64_t tokens = logits.dim(0), experts = logits.dim(1), slots = ids.dim(1);
    require_flat("sparse_mixer", "logits", logits, tokens * experts);
    require_flat("sparse_mixer", "weights", weights, tokens * slots);
    const int32_t* id = checked_indices<int32_t>("sparse_mixer", "ids", ids, 0, experts);
    with_dtype<float, double>("sparse_mixer", logits.dtype(), [&]<class A>() {
      const A* x = logits.data<A>();
      A* w = weights.data<A>();
      parallel_for(tokens, row_grain(experts * slots), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          for (int64_t k = 0; k < slots; ++k)
            w[t * slots + k] =
                NearSoftmax<A>(x + t * experts, experts, id + t * slots, k, static_cast<A>(tolerance)).weight();
      });
    });
  });
}

void backward(Stream& stream, const Tensor& dlogits, const Tensor& dweights, const Tensor& logits, const Tensor& ids,
              double tolerance) {
  stream.run([=] {
    const int64_t tokens = logits.dim(0), experts = logits.dim(1), slots = ids.dim(1);
    require_flat("sparse_mixer", "logits", logits, tokens * experts);
    require_flat("sparse_mixer", "dlogits", dlogits, tokens * experts);
    require_flat("sparse_mixer", "dweights", dweights, tokens * slots);
    const int32_t* id = checked_indices<int32_t>("sparse_mixer", "ids", ids, 0, experts);
    with_dtype<float, double>("sparse_mixer", logits.dtype(), [&]<class A>() {
      const A *x = logits.data<A>(), *dw = dweights.data<A>();
      A* out = dlogits.data<A>();
      parallel_for(tokens, row_grain(experts * slots), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          A* dx = out + t * experts;
          std::fill(dx, dx + experts, A{0});
          for (int64_t k = 0; k < slots; ++k) {
            const NearSoftmax<A> softmax(x + t * experts, experts, id + t * slots, k, static_cast<A>(tolerance));
            const A slope = dw[t * slots + k] * softmax.weight();
            softmax.for_each([&](int64_t e, A power) {
              dx[e] += slope * ((e == id[t * slots + k] ? A{1} : A{0}) - power / softmax.sum());
            });
          }
        }
      });
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const SparseMixerKernels SparseMixerKernels::of_cpu{.forward = cpu::forward, .backward = cpu::backward};

}  // namespace hexad::kernels
