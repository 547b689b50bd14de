#include "tests/kernels/cases.h"

namespace hexad::tests {
namespace {

using K = const KernelTable&;
constexpr double eps = 1e-5;

struct RmsOperands {
  Tensor x, gain, inverse_rms;
  explicit RmsOperands(Trial& r)
      : x(r.normal({r.size.rows, r.size.width})),
        gain(r.normal({r.size.width})),
        inverse_rms(r.scratch({r.size.rows}, r.acc())) {
    reference_table.rms_norm.forward(r.stream, Tensor::like(x), inverse_rms, x, gain, eps);
  }
};

struct LayerOperands {
  Tensor x, gain, stats;
  explicit LayerOperands(Trial& r)
      : x(r.normal({r.size.rows, r.size.width})),
        gain(r.normal({r.size.width})),
        stats(r.scratch({r.size.rows, 2}, r.acc())) {
    reference_table.layer_norm.forward(r.stream, Tensor::like(x), stats, x, gain, {}, eps);
  }
};

}  // namespace

std::vector<Case> norm_cases() {
  return {
      {"rms_norm_forward", entry(&KernelTable::rms_norm, &RmsNormKernels::forward),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         k.rms_norm.forward(r.stream, r.output({t, d}, d), r.output({t}, r.acc(), d), r.normal({t, d}), r.normal({d}),
                            eps);
       }},
      {"rms_norm_forward_per_head", entry(&KernelTable::rms_norm, &RmsNormKernels::forward),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         k.rms_norm.forward(r.stream, r.output({t, 3, d}, d), r.output({t, 3}, r.acc(), d), r.normal({t, 3, d}),
                            r.normal({d}), eps);
       }},
      {"rms_norm_input_gradient", entry(&KernelTable::rms_norm, &RmsNormKernels::input_gradient),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         const RmsOperands o(r);
         if (d == 1) return;  // y = sign(x): the gradient is rounding error
         k.rms_norm.input_gradient(r.stream, r.output({t, d}, d), r.normal({t, d}), o.x, o.gain, o.inverse_rms);
       }},
      {"rms_norm_weight_gradient", entry(&KernelTable::rms_norm, &RmsNormKernels::weight_gradient),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         const RmsOperands o(r);
         k.rms_norm.weight_gradient(r.stream, r.update({d}, r.acc(), t), r.normal({t, d}), o.x, o.inverse_rms);
       }},
      {"layer_norm_forward", entry(&KernelTable::layer_norm, &LayerNormKernels::forward),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         k.layer_norm.forward(r.stream, r.output({t, d}, d), r.output({t, 2}, r.acc(), d), r.normal({t, d}),
                              r.normal({d}), r.normal({d}), eps);
         if (d == 1) r.expect_zeros();  // x - mean = 0
         k.layer_norm.forward(r.stream, r.output({t, d}, d), r.output({t, 2}, r.acc(), d), r.normal({t, d}),
                              r.normal({d}), {}, eps);
       }},
      {"layer_norm_input_gradient", entry(&KernelTable::layer_norm, &LayerNormKernels::input_gradient),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         if (d == 1) return;  // y = bias: the gradient is rounding error
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

}  // namespace hexad::tests
