// Loops of AdamW and SGD. One pass reads the gradient and updates the main weights, the model's copy of the weights
// and, for AdamW, the moments.
#pragma once

#include "framework/kernels/cpu/simd/isa.h"

namespace hexad::kernels::cpu {

/// Constants of a step (Kingma & Ba 2015, section 2). The bias corrections are part of step_size and root_correction.
template <class A>
struct AdamwConstants {
  A factor, beta1, beta2, keep;  // factor: multiplies the gradient; keep: 1 - lr * decay
  A one_minus_beta1, one_minus_beta2;
  A step_size;        // lr / (1 - beta1^step)
  A root_correction;  // 1 / sqrt(1 - beta2^step)
  A eps;
};

/// Loops for one combination of dtypes. Dtypes: T for the model's copy, A for the main weights and moments, G for the
/// gradient (A or bf16). If `weights` is null, the main weights are the only copy.
template <class T, class A, class G>
struct OptimizerLoop {
  void (*adamw)(A* main, A* m, A* v, T* weights, const G* gradient, const AdamwConstants<A>& c, int64_t n);
  void (*sgd)(A* main, T* weights, const G* gradient, A rate, int64_t n);
};

/// Random bits for the elements of one call: base::random_bits of elements first, first + 1, ... under the key `key`.
struct RandomBits {
  uint32_t key, first;
};

/// AdamW with f32 main weights and bf16 moments, which are rounded stochastically (AdamwSlice).
template <class T, class G>
using Bf16MomentsLoop = void (*)(float* main, base::bf16* m, base::bf16* v, T* weights, const G* gradient,
                                 const AdamwConstants<float>& c, RandomBits random, int64_t n);

template <class T>
struct OptimizerLoops {
  OptimizerLoop<T, float, float> f32;
  OptimizerLoop<T, float, base::bf16> f32_from_bf16;
  OptimizerLoop<T, double, double> f64;
  OptimizerLoop<T, double, base::bf16> f64_from_bf16;
  Bf16MomentsLoop<T, float> bf16_moments;
  Bf16MomentsLoop<T, base::bf16> bf16_moments_from_bf16;

  template <class A, class G>
  const OptimizerLoop<T, A, G>& of() const {
    if constexpr (std::is_same_v<A, float>) {
      if constexpr (std::is_same_v<G, A>)
        return f32;
      else
        return f32_from_bf16;
    } else {
      if constexpr (std::is_same_v<G, A>)
        return f64;
      else
        return f64_from_bf16;
    }
  }
  template <class G>
  Bf16MomentsLoop<T, G> with_bf16_moments() const {
    if constexpr (std::is_same_v<G, float>)
      return bf16_moments;
    else
      return bf16_moments_from_bf16;
  }
};

/// Conversions between f32 main weights and their rests (framework/base/main_weight.h). M is the dtype of the second
/// moments v. The sign of a second moment stores the mark of its weight.
template <class M>
struct RestLoops {
  /// Computes main from weights, rests and marks, and clears the marks.
  void (*join)(float* main, M* v, const base::bf16* weights, const base::bf16* rests, int64_t n);
  /// Computes the rests, and stores the mark of each weight in its second moment.
  void (*split)(const float* main, M* v, base::bf16* rests, int64_t n);
};

namespace v3 {
extern const ByDtype<OptimizerLoops> optimizer_loops;
extern const ByDtype<RestLoops> rest_loops;  // both pointers are null for f64
}  // namespace v3
namespace v4 {
extern const ByDtype<OptimizerLoops> optimizer_loops;
extern const ByDtype<RestLoops> rest_loops;
}  // namespace v4

}  // namespace hexad::kernels::cpu
