#include <algorithm>
#include <array>
#include <cmath>

#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/cpu/simd/optimizer_loops.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {
namespace {

template <class A>
AdamwConstants<A> constants_of(const AdamwStep& s, double weight_decay, double factor) {
  const double step = static_cast<double>(s.step);
  return {.factor = static_cast<A>(factor),
          .beta1 = static_cast<A>(s.beta1),
          .beta2 = static_cast<A>(s.beta2),
          .keep = static_cast<A>(1 - s.lr * weight_decay),
          .one_minus_beta1 = static_cast<A>(1 - s.beta1),
          .one_minus_beta2 = static_cast<A>(1 - s.beta2),
          .step_size = static_cast<A>(s.lr / (1 - std::pow(s.beta1, step))),
          .root_correction = static_cast<A>(1 / std::sqrt(1 - std::pow(s.beta2, step))),
          .eps = static_cast<A>(s.eps)};
}

/// Returns the factor by which gradients are multiplied; 1 if `factor` is undefined. The step is skipped if the factor
/// is negative.
double value_of(std::string_view op, const Tensor& factor) {
  if (!factor.defined()) return 1;
  require_flat(op, "factor", factor, 1);
  return *factor.data<double>();
}

/// Calls f(main, weights, gradient) with typed pointers. `weights` is null if the main weights are the only copy.
template <class F>
void with_operands(std::string_view op, const Tensor& main, const Tensor& weights, const Tensor& gradient, const F& f) {
  require_flat(op, "main", main, main.numel());
  require_flat(op, "weights", weights, main.numel());
  require_flat(op, "gradient", gradient, main.numel());
  with_dtype<float, double>(op, main.dtype(), [&]<class A>() {
    with_dtype<float, bf16, double>(op, weights.dtype(), [&]<class T>() {
      with_dtype<A, bf16>(op, gradient.dtype(), [&]<class G>() {
        f(main.data<A>(), weights.raw() == main.raw() ? nullptr : weights.data<T>(),
          static_cast<const G*>(gradient.data<G>()));
      });
    });
  });
}

/// Updates elements [begin, end) of a slice whose moments are bf16. `p` and `w` point to the main weight and the model
/// weight of element `begin`. Each call of the loop updates elements that are contiguous in the whole parameter.
template <class T, class G>
void update_bf16_moments(const AdamwSlice& s, float* p, T* w, const AdamwConstants<float>& constants, int64_t begin,
                         int64_t end) {
  const auto loop = choose<T>(v3::optimizer_loops, v4::optimizer_loops).template with_bf16_moments<G>();
  bf16 *m = s.m.data<bf16>(), *v = s.v.data<bf16>();
  const G* g = s.gradient.data<G>();
  for (int64_t at = begin; at < end;) {
    const auto [index, left] = s.place.at(at);
    const int64_t count = std::min(left, end - at), done = at - begin;
    const RandomBits random{s.rounding_key, static_cast<uint32_t>(index)};
    loop(p + done, m + at, v + at, w ? w + done : nullptr, g + at, constants, random, count);
    at += count;
  }
}

/// Updates a slice whose `main` contains rests of the main weights (see AdamwSlice). Computes the main weights of one
/// block at a time in a buffer. The loops for f32 main weights then update the buffer, so the results are bitwise
/// identical to the results with f32 main weights. M is the dtype of the moments.
template <class M, class G>
void update_rests(const AdamwSlice& s, const AdamwConstants<float>& constants) {
  constexpr int64_t block = 1024;
  const auto convert = choose<M>(v3::rest_loops, v4::rest_loops);
  const auto loop = choose<bf16>(v3::optimizer_loops, v4::optimizer_loops).template of<float, G>().adamw;
  bf16 *weights = s.weights.data<bf16>(), *rests = s.main.data<bf16>();
  M *m = s.m.data<M>(), *v = s.v.data<M>();
  const G* gradient = s.gradient.data<G>();
  parallel_elements(s.main.numel(), [&](int64_t begin, int64_t end) {
    std::array<float, block> main;
    for (int64_t at = begin; at < end; at += block) {
      const int64_t n = std::min(block, end - at);
      convert.join(main.data(), v + at, weights + at, rests + at, n);
      if constexpr (std::is_same_v<M, bf16>)
        update_bf16_moments<bf16, G>(s, main.data(), weights + at, constants, at, at + n);
      else
        loop(main.data(), m + at, v + at, weights + at, gradient + at, constants, n);
      convert.split(main.data(), v + at, rests + at, n);
    }
  });
}

void update_rests(const AdamwSlice& s, const AdamwStep& step, double factor) {
  const int64_t n = s.main.numel();
  require_flat("adamw", "main", s.main, n);
  require_flat("adamw", "weights", s.weights, n);
  require_flat("adamw", "gradient", s.gradient, n);
  const auto constants = constants_of<float>(step, s.weight_decay, factor);
  with_dtype<float, bf16>("adamw", s.m.dtype(), [&]<class M>() {
    with_dtype<float, bf16>("adamw", s.gradient.dtype(), [&]<class G>() { update_rests<M, G>(s, constants); });
  });
}

void update(const AdamwSlice& s, const AdamwStep& step, double factor) {
  const int64_t n = s.main.numel();
  require_flat("adamw", "m", s.m, n);
  require_flat("adamw", "v", s.v, n);
  const bool bf16_moments = has_bf16_moments(s);
  if (has_rests(s)) return update_rests(s, step, factor);
  with_operands("adamw", s.main, s.weights, s.gradient, [&]<class A, class T, class G>(A* p, T* w, const G* g) {
    const auto constants = constants_of<A>(step, s.weight_decay, factor);
    if constexpr (std::is_same_v<A, float>)
      if (bf16_moments)
        return parallel_elements(n, [&](int64_t begin, int64_t end) {
          update_bf16_moments<T, G>(s, p + begin, w ? w + begin : nullptr, constants, begin, end);
        });
    const auto loop = choose<T>(v3::optimizer_loops, v4::optimizer_loops).template of<A, G>().adamw;
    parallel_elements(n, [&, m = s.m.data<A>(), v = s.v.data<A>()](int64_t begin, int64_t end) {
      loop(p + begin, m + begin, v + begin, w ? w + begin : nullptr, g + begin, constants, end - begin);
    });
  });
}

void adamw(Stream& stream, std::span<const AdamwSlice> slices, const AdamwStep& step, const Tensor& factor) {
  require(step.step >= 1, "[adamw] step is ", step.step, "; expected at least 1");
  stream.run([step, factor, all = std::vector<AdamwSlice>(slices.begin(), slices.end())] {
    const double f = value_of("adamw", factor);
    if (f < 0) return;
    for (const AdamwSlice& slice : all) update(slice, step, f);
  });
}

void sgd(Stream& stream, const Tensor& main, const Tensor& weights, const Tensor& gradient, double lr,
         const Tensor& factor) {
  stream.run([=] {
    const double f = value_of("sgd", factor);
    if (f < 0) return;
    with_operands("sgd", main, weights, gradient, [&]<class A, class T, class G>(A* p, T* w, const G* g) {
      const auto loop = choose<T>(v3::optimizer_loops, v4::optimizer_loops).template of<A, G>().sgd;
      parallel_elements(main.numel(), [&](int64_t begin, int64_t end) {
        loop(p + begin, w ? w + begin : nullptr, g + begin, static_cast<A>(lr * f), end - begin);
      });
    });
  });
}

void squared_norm(Stream& stream, const Tensor& out, const Tensor& x, Write write) {
  stream.run([=] {
    require_flat("squared_norm", "out", out, 1);
    require_flat("squared_norm", "x", x, x.numel());
    double total = 0;
    with_dtype<float, bf16, double>("squared_norm", x.dtype(), [&]<class T>() {
      const auto sum = choose<T>(v3::pointwise_loops, v4::pointwise_loops).squared_sum;
      total = sum_of_blocks(x.numel(),
                            [&, in = x.data<T>()](int64_t begin, int64_t end) { return sum(in + begin, end - begin); });
    });
    double* y = out.data<double>();
    *y = write == Write::add ? *y + total : total;
  });
}

void clip(Stream& stream, const Tensor& factor, const Tensor& sums, double limit) {
  stream.run([=] {
    require_flat("clip", "factor", factor, 1);
    require_flat("clip", "sums", sums, sums.numel());
    require(sums.numel() > 0, "[clip] sums has no elements; expected at least one element");
    const double* s = sums.data<double>();
    const bool finite = std::all_of(s, s + sums.numel(), [](double x) { return std::isfinite(x); });
    *factor.data<double>() = !finite ? -1 : limit == 0 ? 1 : std::min(1.0, limit / std::sqrt(s[0]));
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const OptimizerKernels OptimizerKernels::of_cpu{
    .adamw = cpu::adamw, .sgd = cpu::sgd, .squared_norm = cpu::squared_norm, .clip = cpu::clip};

}  // namespace hexad::kernels
