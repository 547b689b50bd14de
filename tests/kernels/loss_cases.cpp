#include "tests/kernels/cases.h"

namespace hexad::tests {
namespace {

using K = const KernelTable&;

Tensor targets_for(Trial& r) {
  const auto [t, v] = r.size;
  std::vector<int32_t> targets;
  for (int64_t i = 0; i < t; ++i) targets.push_back(i % 4 == 3 ? -1 : static_cast<int32_t>(i * 31 % v));
  return r.values<int32_t>(targets, {t});
}

// Where the gradient's place is another one, the logits stay as they are.
void cross_entropy(K k, Trial& r, double scale) {
  const Shape shape{r.size.rows, r.size.width};
  const int64_t vocabulary = shape[1];
  const Tensor targets = targets_for(r);
  const auto losses = [&] { return r.output({shape[0]}, r.acc(), vocabulary); };
  if (vocabulary == 1 || scale == 0) r.expect_zeros();  // one word is no surprise
  for (Dtype type : {Dtype::bf16, Dtype::f32, Dtype::f64}) {
    if (size_of(type) > size_of(r.acc())) continue;  // more digits than the logits have
    k.cross_entropy.forward(r.stream, losses(), r.output(shape, type, vocabulary), r.update(shape, r.acc()), targets,
                            scale);
  }
  const Tensor in_place = r.update(shape, r.acc(), vocabulary);
  k.cross_entropy.forward(r.stream, losses(), in_place, in_place, targets, scale);
}

}  // namespace

std::vector<Case> loss_cases() {
  const size_t e = entry(&KernelTable::cross_entropy, &CrossEntropyKernels::forward);
  return {
      {"cross_entropy", e, [](K k, Trial& r) { cross_entropy(k, r, 0.125); }},
      {"cross_entropy_of_scale_zero", e, [](K k, Trial& r) { cross_entropy(k, r, 0); }},
      {"cross_entropy_without_gradient", e,
       [](K k, Trial& r) {
         const auto [t, v] = r.size;
         if (v == 1) r.expect_zeros();
         k.cross_entropy.forward(r.stream, r.output({t}, r.acc(), v), {}, r.update({t, v}, r.acc()), targets_for(r),
                                 0.125);
       }},
      {"cross_entropy_chunk_rows", entry(&KernelTable::cross_entropy, &CrossEntropyKernels::chunk_rows),
       [](K k, Trial& r) {
         for (int64_t rows : {int64_t{0}, int64_t{1}, r.size.rows, int64_t{1} << 20})
           for (int64_t vocabulary : {int64_t{1}, r.size.width, int64_t{1} << 18})
             k.pointwise.fill(r.stream, r.output({1}), k.cross_entropy.chunk_rows(rows, vocabulary) >= 1 ? 1 : -1);
       }},
  };
}

}  // namespace hexad::tests
