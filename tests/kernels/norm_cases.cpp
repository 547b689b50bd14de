#include "tests/kernels/cases.h"

namespace hexad::tests {

using namespace kernels;
namespace {

using K = const KernelTable&;
constexpr double eps = 1e-5;

struct RmsOperands {
  Tensor x, gain, inverse_rms;
  explicit RmsOperands(Trial& r)
      : x(r.normal({r.size.rows, r.size.width})),
        gain(r.normal({r.size.width})),
        inverse_rms(r.scratch({r.size.rows}, r.acc())) {
    reference_table.rms_norm.forward(r.host_stream, Tensor::like(x), {}, inverse_rms, x, {}, gain, eps);
  }
};

struct LayerOperands {
  Tensor x, gain, stats;
  explicit LayerOperands(Trial& r)
      : x(r.normal({r.size.rows, r.size.width})),
        gain(r.normal({r.size.width})),
        stats(r.scratch({r.size.rows, 2}, r.acc())) {
    reference_table.layer_norm.forward(r.host_stream, Tensor::like(x), stats, x, gain, {}, eps);
  }
};

std::vector<Case> rms_norm_cases() {
  const size_t forward = entry(&KernelTable::rms_norm, &RmsNormKernels::forward),
               backward = entry(&KernelTable::rms_norm, &RmsNormKernels::backward);
  return {
      {"rms_norm_forward", forward,
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         k.rms_norm.forward(r.stream, r.output({t, d}, d), {}, r.output({t}, r.acc(), d), r.normal({t, d}), {},
                            r.normal({d}), eps);
       }},
      {"rms_norm_forward_per_head", forward,
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         k.rms_norm.forward(r.stream, r.output({t, 3, d}, d), {}, r.output({t, 3}, r.acc(), d), r.normal({t, 3, d}), {},
                            r.normal({d}), eps);
       }},
      {"rms_norm_forward_of_sum", forward,
       [](K k, Trial& r) {
         const Shape shape{r.size.rows, r.size.width};
         const Tensor x = r.update(shape, r.dtype), addend = r.update(shape, r.dtype);
         for (const Tensor& sum : {r.output(shape), x, addend})
           k.rms_norm.forward(r.stream, r.output(shape, shape[1]), sum, r.output({shape[0]}, r.acc(), shape[1]), x,
                              addend, r.normal({shape[1]}), eps);
       }},
      {"rms_norm_input_gradient", backward,
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         const RmsOperands o(r);
         if (d == 1) return;  // y hardly depends on |x|, so the gradient is a rounding error
         const auto to = [&](const Tensor& dx, const Tensor& dresidual) {
           k.rms_norm.backward(r.stream, dx, {}, r.normal(dx.shape()), o.x, o.gain, o.inverse_rms, dresidual);
         };
         to(r.output({t, d}, d), {});
         to(r.output({t, d}, d), r.normal({t, d}));
         const Tensor in_place = r.update({t, d}, r.dtype, d);
         to(in_place, in_place);
       }},
      // Backends choose the number of partial sums, so only the totals of these sums must agree.
      {"rms_norm_gain_gradient", backward,
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         const RmsOperands o(r);
         const auto to = [&, rows = t, width = d](const Tensor& dx, const Tensor& dresidual) {
           const Tensor partials = r.scratch({k.rms_norm.partials(rows), width}, r.acc());
           k.rms_norm.backward(r.stream, dx, partials, r.normal(o.x.shape()), o.x, o.gain, o.inverse_rms, dresidual);
           k.bias.backward(r.stream, r.update({width}, r.acc(), rows), partials);
         };
         to({}, {});
         if (d == 1) return;
         to(r.output({t, d}, d), {});
         to(r.output({t, d}, d), r.normal({t, d}));
       }},
      {"rms_norm_partials", entry(&KernelTable::rms_norm, &RmsNormKernels::partials),
       [](K k, Trial& r) {
         for (int64_t rows : {int64_t{0}, int64_t{1}, r.size.rows, int64_t{1} << 20})
           k.pointwise.fill(r.stream, r.output({1}), k.rms_norm.partials(rows) >= 1 ? 1 : -1);
       }},
  };
}

std::vector<Case> split_norm_cases() {
  constexpr int64_t ranks = 3;
  return {
      {"split_norm_forward", entry(&KernelTable::split_norm, &SplitNormKernels::forward),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         const Tensor squares = r.scratch({t}, r.acc());
         const auto square = [&](const Tensor& x) {
           reference_table.permute.row_dots(r.host_stream, squares, x, x);
           return x;
         };
         const Tensor x = square(r.normal({t, d}));
         k.split_norm.forward(r.stream, r.output({t, d}), r.output({t}, r.acc()), x, squares, r.normal({d}), ranks * d,
                              eps);
         const Tensor in_place = r.update({t, d}, r.dtype);
         k.split_norm.forward(r.stream, in_place, r.output({t}, r.acc()), in_place, squares, r.normal({d}), ranks * d,
                              eps);
       }},
      {"split_norm_dots", entry(&KernelTable::split_norm, &SplitNormKernels::dots),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         k.split_norm.dots(r.stream, r.output({t}, r.acc(), d), r.normal({t, d}), r.normal({t, d}), r.normal({d}));
       }},
      {"split_norm_input_gradient", entry(&KernelTable::split_norm, &SplitNormKernels::input_gradient),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         const auto to = [&, rows = t, width = d](const Tensor& dx, const Tensor& dy) {
           k.split_norm.input_gradient(r.stream, dx, dy, r.normal({rows, width}), r.normal({width}),
                                       r.normal({rows}, r.acc()), r.normal({rows}, r.acc()), ranks * width);
         };
         to(r.output({t, d}, 3), r.normal({t, d}));
         const Tensor in_place = r.update({t, d}, r.dtype, 3);
         to(in_place, in_place);
       }},
  };
}

std::vector<Case> layer_norm_cases() {
  return {
      {"layer_norm_forward", entry(&KernelTable::layer_norm, &LayerNormKernels::forward),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         k.layer_norm.forward(r.stream, r.output({t, d}, d), r.output({t, 2}, r.acc(), d), r.normal({t, d}),
                              r.normal({d}), r.normal({d}), eps);
         if (d == 1) r.expect_zeros();  // x - mean is zero
         k.layer_norm.forward(r.stream, r.output({t, d}, d), r.output({t, 2}, r.acc(), d), r.normal({t, d}),
                              r.normal({d}), {}, eps);
       }},
      {"layer_norm_input_gradient", entry(&KernelTable::layer_norm, &LayerNormKernels::input_gradient),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         if (d == 1) return;  // y = bias, so the gradient is a rounding error
         const LayerOperands o(r);
         k.layer_norm.input_gradient(r.stream, r.output({t, d}, d), r.normal({t, d}), o.x, o.gain, o.stats);
       }},
      {"layer_norm_weight_gradient", entry(&KernelTable::layer_norm, &LayerNormKernels::weight_gradient),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         const LayerOperands o(r);
         k.layer_norm.weight_gradient(r.stream, r.update({d}, r.acc(), t), r.update({d}, r.acc(), t), r.normal({t, d}),
                                      o.x, o.stats);
         k.layer_norm.weight_gradient(r.stream, r.update({d}, r.acc(), t), {}, r.normal({t, d}), o.x, o.stats);
       }},
  };
}

}  // namespace

std::vector<Case> norm_cases() {
  std::vector<Case> all = rms_norm_cases();
  for (auto family : {split_norm_cases, layer_norm_cases})
    for (Case& c : family()) all.push_back(std::move(c));
  return all;
}

}  // namespace hexad::tests
