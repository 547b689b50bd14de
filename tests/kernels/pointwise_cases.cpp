#include "tests/kernels/cases.h"

namespace hexad::tests {

using namespace kernels;
namespace {

using K = const KernelTable&;
using P = PointwiseKernels;
constexpr std::array floats{Dtype::f32, Dtype::bf16, Dtype::f64};

}  // namespace

std::vector<Case> pointwise_cases() {
  return {
      {"fill", entry(&KernelTable::pointwise, &P::fill),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         k.pointwise.fill(r.stream, r.output({t, d}), -1.7);
         k.pointwise.fill(r.stream, r.output({t, d}, Dtype::i32), -1);
       }},
      {"copy", entry(&KernelTable::pointwise, &P::copy),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         for (Dtype from : floats)
           for (Layout layout : {Layout::contiguous, Layout::strided_rows}) {
             k.pointwise.copy(r.stream, r.output({t, d}), r.normal({t, d}, from, layout));
             k.pointwise.copy(r.stream, r.output({t, 2, d}, r.dtype, 1, layout), r.normal({t, 2, d}, from));
           }
         k.pointwise.copy(r.stream, r.output({t, d}, Dtype::i64), r.integers({t, d}, Dtype::i64, 1000));
       }},
      {"add", entry(&KernelTable::pointwise, &P::add),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         k.pointwise.add(r.stream, r.output({t, d}), r.normal({t, d}), r.normal({t, d}));
         const Tensor in_place = r.update({t, d}, r.dtype);
         k.pointwise.add(r.stream, in_place, in_place, r.normal({t, d}));
         const Tensor second = r.update({t, d}, r.dtype);
         k.pointwise.add(r.stream, second, r.normal({t, d}), second);
       }},
      {"axpy", entry(&KernelTable::pointwise, &P::axpy),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         k.pointwise.axpy(r.stream, r.update({t, d}, r.dtype), -0.75, r.normal({t, d}));
         k.pointwise.axpy(r.stream, r.update({t, d}, r.acc()), 1.25, r.normal({t, d}));
       }},
      {"scale", entry(&KernelTable::pointwise, &P::scale),
       [](K k, Trial& r) {
         k.pointwise.scale(r.stream, r.update({r.size.rows, r.size.width}, r.dtype), 0.375);
       }},
      {"clamp", entry(&KernelTable::pointwise, &P::clamp),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         k.pointwise.clamp(r.stream, r.output({t, d}), r.normal({t, d}), 0.5);
       }},
      {"clamp_backward", entry(&KernelTable::pointwise, &P::clamp_backward),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         if (t * d < 20) r.expect_zeros();  // most elements may be zero by chance
         k.pointwise.clamp_backward(r.stream, r.output({t, d}), r.normal({t, d}), r.normal({t, d}), 1.0);
       }},
      {"sum", entry(&KernelTable::pointwise, &P::sum),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         for (const Tensor& x : {r.normal({t, d}), r.normal({t, d, 9})})
           for (Write write : {Write::replace, Write::add})
             for (Dtype type : {r.acc(), Dtype::f64})
               k.pointwise.sum(r.stream, r.update({1}, type, x.numel()), x, write);
       }},
      {"sum_of", entry(&KernelTable::pointwise, &P::sum_of),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         for (int64_t count : {1, 2, 7}) {
           std::vector<Tensor> addends;
           for (int64_t a = 0; a < count; ++a) addends.push_back(r.normal({t, d}));
           k.pointwise.sum_of(r.stream, r.output({t, d}, count), addends);
           addends.back() = r.update({t, d}, r.dtype, count);
           k.pointwise.sum_of(r.stream, addends.back(), addends);
           addends.front() = r.update({t, d}, r.dtype, count);
           k.pointwise.sum_of(r.stream, addends.front(), addends);
         }
       }},
  };
}

}  // namespace hexad::tests
