// Loops of AdamW and SGD: one pass over main weights, moments and gradient that also writes the model's copy.
#pragma once

#include "framework/kernels/cpu/simd/isa.h"

namespace hexad::kernels::cpu {

/// What does not depend on the element (Kingma & Ba 2015, section 2, with the corrections moved into constants).
template <class A>
struct AdamwConstants {
  A gradient_scale, beta1, beta2, keep;  // keep: 1 - lr * decay
  A one_minus_beta1, one_minus_beta2;
  A step_size;        // lr / (1 - beta1^step)
  A root_correction;  // 1 / sqrt(1 - beta2^step)
  A eps;
};

/// T: dtype of the model's copy. `weights` null: there is none beside main.
template <class T>
struct OptimizerLoops {
  template <class A>
  using Adamw = void (*)(A* main, A* m, A* v, T* weights, const A* gradient, const AdamwConstants<A>& c, int64_t n);
  template <class A>
  using Sgd = void (*)(A* main, T* weights, const A* gradient, A rate, int64_t n);

  Adamw<float> adamw_f32;
  Adamw<double> adamw_f64;
  Sgd<float> sgd_f32;
  Sgd<double> sgd_f64;

  template <class A>
  auto adamw() const {
    if constexpr (std::is_same_v<A, float>)
      return adamw_f32;
    else
      return adamw_f64;
  }
  template <class A>
  auto sgd() const {
    if constexpr (std::is_same_v<A, float>)
      return sgd_f32;
    else
      return sgd_f64;
  }
};

namespace v3 {
extern const ByDtype<OptimizerLoops> optimizer_loops;
}
namespace v4 {
extern const ByDtype<OptimizerLoops> optimizer_loops;
}

}  // namespace hexad::kernels::cpu
