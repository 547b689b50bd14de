#include "tests/kernels/cases.h"

namespace hexad::tests {

using namespace kernels;
namespace {

using K = const KernelTable&;
constexpr int64_t experts = 5, features = 33;
constexpr Layout strided = Layout::strided_rows;
constexpr std::array both{Write::replace, Write::add};

// Returns a result whose rows have `layout`, inside a larger tensor. The result starts with standard normal values if
// `write` is Write::add.
Tensor result(Trial& r, const Shape& shape, Dtype type, int64_t terms, Write write, Layout layout) {
  const Tensor t = r.output(shape, type, terms, layout);
  if (write == Write::add) reference_table.pointwise.copy(r.host_stream, t, r.normal(shape, type));
  return t;
}
Tensor result(Trial& r, const Shape& shape, Dtype type, int64_t terms, Write write) {
  return write == Write::add ? r.update(shape, type, terms) : r.output(shape, type, terms);
}

// Returns offsets of five experts. The third expert has no rows. The first row and the last row belong to no expert.
std::vector<int64_t> offsets_for(int64_t rows) {
  const int64_t begin = std::min<int64_t>(1, rows), end = std::max(begin, rows - 1), n = end - begin;
  return {begin, begin + n / 4, begin + n / 2, begin + n / 2, begin + n * 3 / 4, end};
}

// Returns offsets of five experts that together have all n rows. The third expert has no rows.
std::vector<int64_t> offsets_of_all(int64_t n) { return {0, n / 4, n / 2, n / 2, n * 3 / 4, n}; }

// Calls f(offsets) with offsets only on the host, only on the device, and on both.
template <class F>
void for_each_side(Trial& r, const std::vector<int64_t>& offsets, const F& f) {
  GroupOffsets host = GroupOffsets::on_host(offsets), sides = host;
  sides.device = r.values<int64_t>(offsets, {experts + 1});
  GroupOffsets device = sides;
  device.host = {};
  ++device.max_rows;  // max_rows may be any upper bound
  for (const GroupOffsets& groups : {host, device, sides}) f(groups);
  r.stream.synchronize();  // the kernels end before the offsets are freed
}

std::vector<Case> dense_cases() {
  return {
      {"matmul_forward", entry(&KernelTable::matmul, &MatmulKernels::forward),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         const Tensor w = r.normal({features, d}), wide = r.normal({features, d}, r.acc());
         for (Write write : both) {
           const auto out = [&](Dtype type) { return result(r, {t, features}, type, d, write); };
           const auto strided_out = [&](Dtype type) { return result(r, {t, features}, type, d, write, strided); };
           k.matmul.forward(r.stream, out(r.dtype), r.normal({t, d}), w, write);
           k.matmul.forward(r.stream, out(r.acc()), r.normal({t, d}), w, write);
           k.matmul.forward(r.stream, strided_out(r.dtype), r.normal({t, d}, strided), w, write);
           k.matmul.forward(r.stream, out(r.acc()), r.normal({t, d}), wide, write);
           k.matmul.forward(r.stream, strided_out(r.acc()), r.normal({t, d}, strided), wide, write);
         }
       }},
      {"matmul_input_gradient", entry(&KernelTable::matmul, &MatmulKernels::input_gradient),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         const Tensor w = r.normal({features, d}), wide = r.normal({features, d}, r.acc());
         for (Write write : both) {
           const auto dx = [&] { return result(r, {t, d}, r.dtype, features, write); };
           const auto strided_dx = [&] { return result(r, {t, d}, r.dtype, features, write, strided); };
           k.matmul.input_gradient(r.stream, dx(), r.normal({t, features}), w, write);
           k.matmul.input_gradient(r.stream, strided_dx(), r.normal({t, features}, strided), w, write);
           k.matmul.input_gradient(r.stream, dx(), r.normal({t, features}, r.acc()), wide, write);
           k.matmul.input_gradient(r.stream, strided_dx(), r.normal({t, features}, r.acc(), strided), wide, write);
         }
       }},
      {"matmul_weight_gradient", entry(&KernelTable::matmul, &MatmulKernels::weight_gradient),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         if (t == 0) r.expect_zeros();
         for (Write write : both)
           for (Dtype type : {r.acc(), r.dtype}) {
             const auto dw = [&] { return result(r, {features, d}, type, t, write); };
             k.matmul.weight_gradient(r.stream, dw(), r.normal({t, features}), r.normal({t, d}), write);
             k.matmul.weight_gradient(r.stream, dw(), r.normal({t, features}, r.acc()), r.normal({t, d}), write);
             k.matmul.weight_gradient(r.stream, dw(), r.normal({t, features}, strided), r.normal({t, d}, strided),
                                      write);
           }
       }},
  };
}

std::vector<Case> grouped_cases() {
  return {
      {"grouped_matmul_forward", entry(&KernelTable::grouped_matmul, &GroupedMatmulKernels::forward),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         const Tensor x = r.normal({t, d}), w = r.normal({experts, features, d});
         for_each_side(r, offsets_for(r.size.rows), [&, n = d](const GroupOffsets& groups) {
           for (Write write : both)
             k.grouped_matmul.forward(r.stream, result(r, {x.dim(0), features}, r.dtype, n, write), x, w, groups,
                                      write);
         });
       }},
      {"grouped_matmul_input_gradient", entry(&KernelTable::grouped_matmul, &GroupedMatmulKernels::input_gradient),
       [](K k, Trial& r) {
         const Shape shape{r.size.rows, r.size.width};
         const Tensor dy = r.normal({shape[0], features}), w = r.normal({experts, features, shape[1]});
         for_each_side(r, offsets_for(r.size.rows), [&](const GroupOffsets& groups) {
           for (Write write : both)
             k.grouped_matmul.input_gradient(r.stream, result(r, shape, r.dtype, features, write), dy, w, groups,
                                             write);
         });
       }},
      {"grouped_matmul_weight_gradient", entry(&KernelTable::grouped_matmul, &GroupedMatmulKernels::weight_gradient),
       [](K k, Trial& r) {
         const Shape shape{experts, features, r.size.width};
         const int64_t t = r.size.rows;
         if (t < 7) r.expect_zeros();
         const Tensor dy = r.normal({t, features}), x = r.normal({t, r.size.width});
         for_each_side(r, offsets_for(r.size.rows), [&](const GroupOffsets& groups) {
           for (Write write : both)
             for (Dtype type : {r.acc(), r.dtype})
               k.grouped_matmul.weight_gradient(r.stream, result(r, shape, type, t, write), dy, x, groups, write);
         });
       }},
  };
}

// Computes and compares the gradients. Also compares `product` and the gradient of the weights if `weights` is defined.
// The gradient of the weights is compared in the dtype of the trial, because factors of its addends are rounded to this
// dtype.
void grouped_swiglu_gradients(K k, Trial& r, const Tensor& dout, const Tensor& w, const GroupOffsets& groups,
                              const Tensor& gate_up, const Tensor& weights) {
  const int64_t t = dout.dim(0), d = dout.dim(1), f = w.dim(2);
  if (!weights.defined())
    return k.grouped_swiglu.backward(r.stream, {r.output({t, 2 * f}, d), r.scratch({t, f}, r.dtype)}, dout, w, groups,
                                     gate_up, weights);
  const Tensor dweights = r.scratch({t}, r.acc());
  k.grouped_swiglu.backward(r.stream, {r.output({t, 2 * f}, d), r.output({t, f}), dweights}, dout, w, groups, gate_up,
                            weights);
  reference_table.pointwise.copy(r.host_stream, r.output({t}, d + f), dweights);
}

// A Hopper card uses separate launches for experts with 33 features. It can use one launch for experts with 128
// features.
std::vector<Case> grouped_swiglu_cases() {
  return {
      {"grouped_swiglu_forward", entry(&KernelTable::grouped_swiglu, &GroupedSwigluKernels::forward),
       [](K k, Trial& r) {
         const int64_t t = r.size.rows, d = r.size.width;
         const Tensor x = r.normal({t, d});
         for (const int64_t f : {features, int64_t{128}})
           for (const Tensor& weights : {Tensor{}, r.normal({t}, r.acc())}) {
             const Tensor w = r.normal({experts, 2 * f, d});
             for_each_side(r, offsets_of_all(t), [&](const GroupOffsets& groups) {
               k.grouped_swiglu.forward(r.stream, r.output({t, 2 * f}, d), r.output({t, f}, d), x, w, groups, weights);
             });
           }
       }},
      {"grouped_swiglu_backward", entry(&KernelTable::grouped_swiglu, &GroupedSwigluKernels::backward),
       [](K k, Trial& r) {
         const int64_t t = r.size.rows, d = r.size.width;
         const Tensor dout = r.normal({t, d});
         for (const int64_t f : {features, int64_t{128}})
           for (const Tensor& weights : {Tensor{}, r.normal({t}, r.acc())}) {
             const Tensor w = r.normal({experts, d, f}), gate_up = r.normal({t, 2 * f});
             for_each_side(r, offsets_of_all(t), [&](const GroupOffsets& groups) {
               grouped_swiglu_gradients(k, r, dout, w, groups, gate_up, weights);
             });
           }
       }}};
}

std::vector<Case> bias_cases() {
  return {
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
         const Shape shape{r.size.rows, r.size.width};
         for_each_side(r, offsets_for(r.size.rows), [&](const GroupOffsets& groups) {
           k.bias.grouped_forward(r.stream, r.update(shape, r.dtype), r.normal({experts, shape[1]}), groups);
         });
       }},
      {"bias_grouped_backward", entry(&KernelTable::bias, &BiasKernels::grouped_backward),
       [](K k, Trial& r) {
         const Shape shape{r.size.rows, r.size.width};
         for_each_side(r, offsets_for(r.size.rows), [&](const GroupOffsets& groups) {
           k.bias.grouped_backward(r.stream, r.update({experts, shape[1]}, r.acc(), shape[0]), r.normal(shape), groups);
         });
       }},
  };
}

}  // namespace

std::vector<Case> product_cases() {
  std::vector<Case> all = dense_cases();
  for (auto cases : {grouped_cases, grouped_swiglu_cases, bias_cases})
    for (Case& c : cases()) all.push_back(std::move(c));
  return all;
}

}  // namespace hexad::tests
