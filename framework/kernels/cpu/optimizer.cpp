#include <cmath>

#include "framework/kernels/cpu/families.h"
#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/cpu/simd/optimizer_loops.h"

namespace hexad::kernels::cpu {
namespace {

template <class A>
AdamwConstants<A> constants_of(const AdamwStep& s) {
  const double step = static_cast<double>(s.step);
  return {.gradient_scale = static_cast<A>(s.gradient_scale),
          .beta1 = static_cast<A>(s.beta1),
          .beta2 = static_cast<A>(s.beta2),
          .keep = static_cast<A>(1 - s.lr * s.weight_decay),
          .one_minus_beta1 = static_cast<A>(1 - s.beta1),
          .one_minus_beta2 = static_cast<A>(1 - s.beta2),
          .step_size = static_cast<A>(s.lr / (1 - std::pow(s.beta1, step))),
          .root_correction = static_cast<A>(1 / std::sqrt(1 - std::pow(s.beta2, step))),
          .eps = static_cast<A>(s.eps)};
}

/// Calls f<A, T>(main, weights), weights null where they are main itself.
template <class F>
void with_weights(std::string_view op, const Tensor& main, const Tensor& weights, const F& f) {
  require_flat(op, "main", main, main.numel());
  require_flat(op, "weights", weights, main.numel());
  with_dtype<float, double>(op, main.dtype(), [&]<class A>() {
    with_dtype<float, bf16, double>(op, weights.dtype(), [&]<class T>() {
      f(main.data<A>(), weights.raw() == main.raw() ? nullptr : weights.data<T>());
    });
  });
}

void adamw(Stream& stream, const Tensor& main, const Tensor& m, const Tensor& v, const Tensor& weights,
           const Tensor& gradient, const AdamwStep& step) {
  require(step.step >= 1, "[adamw] step is ", step.step, "; expected 1 for the first");
  stream.run([=] {
    const int64_t n = main.numel();
    require_flat("adamw", "m", m, n);
    require_flat("adamw", "v", v, n);
    require_flat("adamw", "gradient", gradient, n);
    with_weights("adamw", main, weights, [&]<class A, class T>(A* p, T* w) {
      const auto loop = choose<T>(v3::optimizer_loops, v4::optimizer_loops).template adamw<A>();
      const auto constants = constants_of<A>(step);
      parallel_elements(n, [&, m1 = m.data<A>(), m2 = v.data<A>(), g = gradient.data<A>()](int64_t begin, int64_t end) {
        loop(p + begin, m1 + begin, m2 + begin, w ? w + begin : nullptr, g + begin, constants, end - begin);
      });
    });
  });
}

void sgd(Stream& stream, const Tensor& main, const Tensor& weights, const Tensor& gradient, double lr,
         double gradient_scale) {
  stream.run([=] {
    require_flat("sgd", "gradient", gradient, main.numel());
    with_weights("sgd", main, weights, [&]<class A, class T>(A* p, T* w) {
      const auto loop = choose<T>(v3::optimizer_loops, v4::optimizer_loops).template sgd<A>();
      parallel_elements(main.numel(), [&, g = gradient.data<A>()](int64_t begin, int64_t end) {
        loop(p + begin, w ? w + begin : nullptr, g + begin, static_cast<A>(lr * gradient_scale), end - begin);
      });
    });
  });
}

double squared_norm(Stream& stream, const Tensor& x) {
  constexpr int64_t block =
      65536;  // elements whose sum is taken by one thread: the order never depends on their number
  const int64_t n = x.numel(), blocks = (n + block - 1) / block;
  std::vector<double> sums(static_cast<size_t>(blocks));
  stream.run([&] {
    require_flat("squared_norm", "x", x, n);
    with_dtype<float, bf16, double>("squared_norm", x.dtype(), [&]<class T>() {
      const auto sum = choose<T>(v3::pointwise_loops, v4::pointwise_loops).squared_sum;
      parallel_for(blocks, 1, [&, in = x.data<T>()](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b)
          sums[static_cast<size_t>(b)] = sum(in + b * block, std::min(block, n - b * block));
      });
    });
  });
  stream.synchronize();
  double total = 0;
  for (double s : sums) total += s;
  return total;
}

}  // namespace

const OptimizerKernels optimizer{.adamw = adamw, .sgd = sgd, .squared_norm = squared_norm};

}  // namespace hexad::kernels::cpu
