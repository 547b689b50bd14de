#include "tests/kernels/cases.h"

namespace hexad::tests {
namespace {

using K = const KernelTable&;
constexpr int64_t experts = 5;

// Rows of five experts inside [1, rows - 1]: the third is empty; the outer rows belong to none.
std::vector<int64_t> offsets_for(int64_t rows) {
  const int64_t begin = std::min<int64_t>(1, rows), end = std::max(begin, rows - 1), n = end - begin;
  return {begin, begin + n / 4, begin + n / 2, begin + n / 2, begin + n * 3 / 4, end};
}

constexpr std::array both{Write::replace, Write::add};

}  // namespace

std::vector<Case> product_cases() {
  constexpr int64_t features = 33;
  return {
      {"matmul_forward", entry(&KernelTable::matmul, &MatmulKernels::forward),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         const Tensor w = r.normal({features, d});
         k.matmul.forward(r.stream, r.output({t, features}, d), r.normal({t, d}), w);
         k.matmul.forward(r.stream, r.output({t, features}, r.acc(), d), r.normal({t, d}), w);
         k.matmul.forward(r.stream, r.output({t, features}, r.dtype, d, Layout::strided_rows),
                          r.normal({t, d}, Layout::strided_rows), w);
       }},
      {"matmul_input_gradient", entry(&KernelTable::matmul, &MatmulKernels::input_gradient),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         k.matmul.input_gradient(r.stream, r.output({t, d}, features), r.normal({t, features}),
                                 r.normal({features, d}));
       }},
      {"matmul_weight_gradient", entry(&KernelTable::matmul, &MatmulKernels::weight_gradient),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         if (t == 0) r.expect_zeros();
         for (Write write : both)
           k.matmul.weight_gradient(r.stream, r.update({features, d}, r.acc(), t), r.normal({t, features}),
                                    r.normal({t, d}), write);
       }},
      {"grouped_matmul_forward", entry(&KernelTable::grouped_matmul, &GroupedMatmulKernels::forward),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         k.grouped_matmul.forward(r.stream, r.output({t, features}, d), r.normal({t, d}),
                                  r.normal({experts, features, d}), offsets_for(t));
       }},
      {"grouped_matmul_input_gradient", entry(&KernelTable::grouped_matmul, &GroupedMatmulKernels::input_gradient),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         k.grouped_matmul.input_gradient(r.stream, r.output({t, d}, features), r.normal({t, features}),
                                         r.normal({experts, features, d}), offsets_for(t));
       }},
      {"grouped_matmul_weight_gradient", entry(&KernelTable::grouped_matmul, &GroupedMatmulKernels::weight_gradient),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         if (t < 7) r.expect_zeros();
         for (Write write : both)
           k.grouped_matmul.weight_gradient(r.stream, r.update({experts, features, d}, r.acc(), t),
                                            r.normal({t, features}), r.normal({t, d}), offsets_for(t), write);
       }},
      {"bias_forward", entry(&KernelTable::bias, &BiasKernels::forward),
       [](K k, Trial& r) {
         const auto [t, n] = r.size;
         k.bias.forward(r.stream, r.update({t, n}, r.dtype), r.normal({n}));
       }},
      {"bias_backward", entry(&KernelTable::bias, &BiasKernels::backward),
       [](K k, Trial& r) {
         const auto [t, n] = r.size;
         k.bias.backward(r.stream, r.update({n}, r.acc(), t), r.normal({t, n}));
       }},
      {"bias_grouped_forward", entry(&KernelTable::bias, &BiasKernels::grouped_forward),
       [](K k, Trial& r) {
         const auto [t, n] = r.size;
         k.bias.grouped_forward(r.stream, r.update({t, n}, r.dtype), r.normal({experts, n}), offsets_for(t));
       }},
      {"bias_grouped_backward", entry(&KernelTable::bias, &BiasKernels::grouped_backward),
       [](K k, Trial& r) {
         const auto [t, n] = r.size;
         k.bias.grouped_backward(r.stream, r.update({experts, n}, r.acc(), t), r.normal({t, n}), offsets_for(t));
       }},
  };
}

}  // namespace hexad::tests
