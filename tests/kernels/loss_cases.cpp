#include "tests/kernels/cases.h"

namespace hexad::tests {

using namespace base;
using namespace kernels;
namespace {

using K = const KernelTable&;

Tensor targets_for(Trial& r) {
  const auto [t, v] = r.size;
  std::vector<int32_t> targets;
  for (int64_t i = 0; i < t; ++i) targets.push_back(i % 4 == 3 ? -1 : static_cast<int32_t>(i * 31 % v));
  return r.values<int32_t>(targets, {t});
}

// Computes losses and gradients. The logits must remain unchanged if the gradient has separate memory.
void cross_entropy(K k, Trial& r, double scale, Dtype of_logits) {
  const Shape shape{r.size.rows, r.size.width};
  const int64_t vocabulary = shape[1];
  const Tensor targets = targets_for(r);
  const auto losses = [&] { return r.output({shape[0]}, r.acc(), vocabulary); };
  if (vocabulary == 1 || scale == 0) r.expect_zeros();  // one token: no loss; scale 0: no gradient
  for (Dtype type : {Dtype::bf16, Dtype::f32, Dtype::f64}) {
    if (size_of(type) > size_of(of_logits)) continue;  // gradients must not be wider than the logits
    k.cross_entropy.forward(r.stream, losses(), r.output(shape, type, vocabulary), r.update(shape, of_logits), targets,
                            scale);
  }
  const Tensor in_place = r.update(shape, of_logits, vocabulary);
  k.cross_entropy.forward(r.stream, losses(), in_place, in_place, targets, scale);
}

void losses_alone(K k, Trial& r, Dtype of_logits) {
  const auto [t, v] = r.size;
  if (v == 1) r.expect_zeros();
  k.cross_entropy.forward(r.stream, r.output({t}, r.acc(), v), {}, r.update({t, v}, of_logits), targets_for(r), 0.125);
}

// Columns that rank 1 holds if three ranks split a vocabulary. Targets are in the columns of all three ranks, or -1.
struct SplitVocabulary {
  static constexpr int64_t ranks = 3, rank = 1, count = SplitSoftmaxKernels::statistics_count;
  int64_t rows, columns, first;
  Tensor targets;

  explicit SplitVocabulary(Trial& r) : rows(r.size.rows), columns(r.size.width), first(rank * columns) {
    std::vector<int32_t> all;
    for (int64_t i = 0; i < rows; ++i)
      all.push_back(i % 4 == 3 ? -1 : static_cast<int32_t>(i * 31 % (ranks * columns)));
    targets = r.values<int32_t>(all, {rows});
  }
};

void split_softmax_start(K k, Trial& r, Dtype of_logits) {
  const SplitVocabulary v(r);
  k.split_softmax.start(r.stream, r.output({v.count, v.rows}, r.acc(), v.columns),
                        r.update({v.rows, v.columns}, of_logits, v.columns), v.targets, v.first);
}

void split_softmax_finish(K k, Trial& r, double scale, Dtype of_logits) {
  const SplitVocabulary v(r);
  const int64_t terms = v.ranks * v.columns;
  const Tensor statistics = r.scratch({v.ranks, v.count, v.rows}, r.acc());
  Tensor mine;
  for (int64_t rank = 0; rank < v.ranks; ++rank) {
    const Shape shape{v.rows, v.columns};
    const Tensor logits = rank == v.rank ? mine = r.update(shape, of_logits, terms) : r.normal(shape, of_logits);
    reference_table.split_softmax.start(r.host_stream, statistics.slice(0, rank, rank + 1).reshape({v.count, v.rows}),
                                        logits, v.targets, rank * v.columns);
  }
  if (scale == 0) r.expect_zeros();
  k.split_softmax.finish(r.stream, r.output({v.rows}, r.acc(), terms), mine, statistics, v.rank, v.targets, v.first,
                         scale);
}

}  // namespace

std::vector<Case> loss_cases() {
  const size_t e = entry(&KernelTable::cross_entropy, &CrossEntropyKernels::forward);
  const size_t f = entry(&KernelTable::split_softmax, &SplitSoftmaxKernels::finish);
  const size_t start = entry(&KernelTable::split_softmax, &SplitSoftmaxKernels::start);
  const std::vector<Dtype> bf16_only{Dtype::bf16};
  return {
      {"cross_entropy", e, [](K k, Trial& r) { cross_entropy(k, r, 0.125, r.acc()); }},
      {"cross_entropy_of_scale_zero", e, [](K k, Trial& r) { cross_entropy(k, r, 0, r.acc()); }},
      {"cross_entropy_without_gradient", e, [](K k, Trial& r) { losses_alone(k, r, r.acc()); }},
      {"cross_entropy_of_bf16_logits", e, [](K k, Trial& r) { cross_entropy(k, r, 0.125, r.dtype); }, bf16_only},
      {"cross_entropy_of_bf16_logits_of_scale_zero", e, [](K k, Trial& r) { cross_entropy(k, r, 0, r.dtype); },
       bf16_only},
      {"cross_entropy_of_bf16_logits_without_gradient", e, [](K k, Trial& r) { losses_alone(k, r, r.dtype); },
       bf16_only},
      {"split_softmax_start", start, [](K k, Trial& r) { split_softmax_start(k, r, r.acc()); }},
      {"split_softmax_start_of_bf16_logits", start, [](K k, Trial& r) { split_softmax_start(k, r, r.dtype); },
       bf16_only},
      {"split_softmax_finish", f, [](K k, Trial& r) { split_softmax_finish(k, r, 0.125, r.acc()); }},
      {"split_softmax_finish_of_scale_zero", f, [](K k, Trial& r) { split_softmax_finish(k, r, 0, r.acc()); }},
      {"split_softmax_finish_of_bf16_logits", f, [](K k, Trial& r) { split_softmax_finish(k, r, 0.125, r.dtype); },
       bf16_only},
      {"split_softmax_finish_of_bf16_logits_of_scale_zero", f,
       [](K k, Trial& r) { split_softmax_finish(k, r, 0, r.dtype); }, bf16_only},
      {"cross_entropy_block_rows", entry(&KernelTable::cross_entropy, &CrossEntropyKernels::block_rows),
       [](K k, Trial& r) {
         for (int64_t rows : {int64_t{0}, int64_t{1}, r.size.rows, int64_t{1} << 20})
           for (int64_t vocabulary : {int64_t{1}, r.size.width, int64_t{1} << 18})
             k.pointwise.fill(r.stream, r.output({1}), k.cross_entropy.block_rows(rows, vocabulary) >= 1 ? 1 : -1);
       }},
  };
}

}  // namespace hexad::tests
