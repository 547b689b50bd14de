#include <algorithm>
#include <cmath>

#include "framework/base/main_weight.h"
#include "framework/base/random_rounding.h"
#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

// Returns the factor by which gradients are multiplied; 1 if `factor` is undefined. The step is skipped if the factor
// is negative.
double value_of(const Tensor& factor) { return factor.defined() ? load(factor)[0] : 1; }

double rounded_at_random(double value, uint32_t random) {
  base::bf16 result;
  result.bits = base::bf16_bits_at_random(static_cast<float>(value), random);
  return static_cast<double>(result);
}

// Returns the main weights. If the slice has rests, also clears the signs of V, because these signs are marks
// (base/main_weight.h).
Array load_main(const AdamwSlice& slice, Array& V) {
  if (!has_rests(slice)) return load(slice.main);
  Array W = load(slice.weights);
  HostMemory rests(slice.main);
  for (int64_t i = 0; i < W.size(); ++i) {
    const base::bf16 weight(static_cast<float>(W[i]));
    W[i] = static_cast<double>(base::main_of(weight.bits, rests.data<base::bf16>()[i].bits, std::signbit(V[i])));
    V[i] = std::fabs(V[i]);
  }
  return W;
}

// Stores the main weights, the second moments and the model's copy.
void store_main(const AdamwSlice& slice, const Array& W, Array& V) {
  if (has_rests(slice)) {
    HostMemory rests(slice.main);
    for (int64_t i = 0; i < W.size(); ++i) {
      const auto main = static_cast<float>(W[i]);
      rests.data<base::bf16>()[i].bits = base::rest_of(main);
      if (base::marked(main)) V[i] = -V[i];
    }
    rests.put_back();
  } else {
    store(slice.main, W);
  }
  store(slice.v, V);
  store(slice.weights, has_rests(slice) ? W : load(slice.main));
}

void update(const AdamwSlice& slice, const AdamwStep& step, double factor) {
  const bool rounded = has_bf16_moments(slice);
  const Array G = load(slice.gradient);
  Array M = load(slice.m), V = load(slice.v), W = load_main(slice, V);
  const double correction1 = 1 - std::pow(step.beta1, static_cast<double>(step.step));
  const double correction2 = 1 - std::pow(step.beta2, static_cast<double>(step.step));
  for (int64_t i = 0; i < W.size(); ++i) {
    const double g = factor * G[i];
    M[i] = step.beta1 * M[i] + (1 - step.beta1) * g;
    V[i] = step.beta2 * V[i] + (1 - step.beta2) * g * g;
    const double update = M[i] / correction1 / (std::sqrt(V[i] / correction2) + step.eps);
    W[i] -= step.lr * (update + slice.weight_decay * W[i]);
    if (!rounded) continue;
    const uint32_t random = base::random_bits(slice.rounding_key, static_cast<uint32_t>(slice.place.at(i).index));
    M[i] = rounded_at_random(M[i], random);
    V[i] = rounded_at_random(V[i], random >> 16);
  }
  store(slice.m, M);
  store_main(slice, W, V);
}

void adamw(Stream& stream, std::span<const AdamwSlice> slices, const AdamwStep& step, const Tensor& factor) {
  stream.run([step, factor, all = std::vector<AdamwSlice>(slices.begin(), slices.end())] {
    const double f = value_of(factor);
    if (f < 0) return;
    for (const AdamwSlice& slice : all) update(slice, step, f);
  });
}

void sgd(Stream& stream, const Tensor& main, const Tensor& weights, const Tensor& gradient, double lr,
         const Tensor& factor) {
  stream.run([=] {
    const double f = value_of(factor);
    if (f < 0) return;
    const Array G = load(gradient);
    Array W = load(main);
    for (int64_t i = 0; i < W.size(); ++i) W[i] -= lr * f * G[i];
    store(main, W);
    store(weights, load(main));
  });
}

void squared_norm(Stream& stream, const Tensor& out, const Tensor& x, Write write) {
  stream.run([=] {
    Array Sum = write == Write::add ? load(out) : zeros(out);
    for (double v : load(x).values) Sum[0] += v * v;
    store(out, Sum);
  });
}

void clip(Stream& stream, const Tensor& factor, const Tensor& sums, double limit) {
  stream.run([=] {
    const Array Sums = load(sums);
    const bool finite = std::all_of(Sums.values.begin(), Sums.values.end(), [](double s) { return std::isfinite(s); });
    Array F = zeros(factor);
    F[0] = !finite ? -1 : limit == 0 ? 1 : std::min(1.0, limit / std::sqrt(Sums[0]));
    store(factor, F);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const OptimizerKernels OptimizerKernels::of_reference{
    .adamw = reference::adamw, .sgd = reference::sgd, .squared_norm = reference::squared_norm, .clip = reference::clip};

}  // namespace hexad::kernels
