#include "tests/kernels/cases.h"

namespace hexad::tests {

using namespace kernels;
namespace {

using K = const KernelTable&;

struct NamedRule {
  std::string name;
  int64_t experts;
  RouterRule rule;
};

const std::vector<NamedRule>& rules() {
  static const std::vector<NamedRule> all{
      {"softmax", 8, {}},
      {"one_expert", 1, {.top_k = 1}},
      {"raw_weights", 7, {.top_k = 3, .normalize = false, .scale = 2.5}},
      {"sigmoid", 65, {.score = RouterScore::sigmoid, .top_k = 8, .scale = 2.5}},
      {"floor", 24, {.top_k = 3, .normalize_floor = 0.45, .scale = 2.5}},
      {"groups", 24, {.score = RouterScore::sigmoid, .top_k = 4, .groups = 6, .top_groups = 2}},
      {"groups_by_best",
       24,
       {.score = RouterScore::sigmoid,
        .top_k = 4,
        .groups = 6,
        .top_groups = 2,
        .group_score = RouterGroupScore::best}},
      {"groups_of_one", 5, {.top_k = 2, .groups = 5, .top_groups = 3}},
  };
  return all;
}

// Permutation of rows for tokens with two slots each. The first slot of every fifth token is dropped. The rows of
// dropped slots and two more rows are unused.
struct SlotPermutation {
  static constexpr int64_t slots = 2;
  Tensor rows, tokens;
  int64_t count;

  explicit SlotPermutation(Trial& r) : count(slots * r.size.rows + 2) {
    std::vector<int64_t> v;
    std::vector<int64_t> inverse(count, -1);
    for (int64_t slot = 0; slot < slots * r.size.rows; ++slot) {
      v.push_back(slot % 10 == 0 ? -1 : count - 2 - slot);
      if (v.back() >= 0) inverse[v.back()] = slot / slots;
    }
    rows = r.values<int64_t>(v, {r.size.rows, slots});
    tokens = r.values<int64_t>(inverse, {count});
  }
};

// Positions of a trial's rows in two windows, which are the halves of one tensor [2 rows, width].
struct TwoWindows {
  static constexpr int64_t multiple = 16;  // divides `rows`, so that distances are multiples of 16 bytes
  int64_t rows;
  Tensor distances, runs;

  explicit TwoWindows(Trial& r) : rows((r.size.rows / multiple + 1) * multiple) {
    const int64_t first = r.size.rows / 3;  // number of rows of the first run, which is in the second window
    distances = r.values<int64_t>({0, rows * r.size.width * base::size_of(r.dtype)}, {2});
    runs = r.values<int64_t>({first, r.size.rows, 1, 0, 2, -first}, {3, 2});
  }
};

}  // namespace

std::vector<Case> routing_cases() {
  std::vector<Case> cases{
      {"gather", entry(&KernelTable::permute, &PermuteKernels::gather),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         k.permute.gather(r.stream, r.output({3 * t, d}), r.normal({t, d}), r.integers({3 * t}, Dtype::i64, t), {});
         const SlotPermutation permutation(r);
         for (const Tensor& rows : {permutation.rows, Tensor{}})
           k.permute.gather(r.stream, r.update({permutation.count, d}, r.dtype), r.normal({t, d}), permutation.tokens,
                            rows);
       }},
      {"combine", entry(&KernelTable::permute, &PermuteKernels::combine),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         const SlotPermutation permutation(r);
         const Tensor y = r.normal({permutation.count, d});
         for (const Tensor& weights : {r.normal({t, SlotPermutation::slots}, r.acc()), Tensor{}}) {
           const auto to = [&](const Tensor& out, const std::vector<Tensor>& addends) {
             k.permute.combine(r.stream, out, y, permutation.rows, weights, addends);
           };
           to(r.output({t, d}, 2), {});
           to(r.output({t, d}, 3), {r.normal({t, d})});
           const Tensor first = r.update({t, d}, r.dtype, 4), second = r.update({t, d}, r.dtype, 4);
           to(first, {first, r.normal({t, d})});
           to(second, {r.normal({t, d}), second});
         }
       }},
      {"combine_backward", entry(&KernelTable::permute, &PermuteKernels::combine_backward),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         const SlotPermutation permutation(r);
         if (t < 7) r.expect_zeros();
         for (const Tensor& tokens : {permutation.tokens, Tensor{}})
           k.permute.combine_backward(r.stream, r.output({permutation.count, d}),
                                      r.output({t, SlotPermutation::slots}, r.acc(), d), r.normal({t, d}),
                                      r.normal({permutation.count, d}), permutation.rows, tokens,
                                      r.normal({t, SlotPermutation::slots}, r.acc()));
       }},
      {"scatter", entry(&KernelTable::permute, &PermuteKernels::scatter),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         const Tensor index = r.values<int64_t>(every_second_row_backwards(t), {t});
         for (Layout layout : {Layout::contiguous, Layout::strided_rows})
           k.permute.scatter(r.stream, r.update({2 * t + 1, d}, r.dtype), r.normal({t, d}, layout), index);
         k.permute.scatter(r.stream, r.output({2 * t + 1, d}, 1, Layout::strided_rows), r.normal({t, d}), index);
         std::vector<int64_t> some = every_second_row_backwards(t);
         for (size_t i = 0; i < some.size(); i += 3) some[i] = -1;
         const Tensor part = r.values<int64_t>(some, {t});
         k.permute.scatter(r.stream, r.update({2 * t + 1, d}, r.dtype), r.normal({t, d}), part);
         k.permute.scatter(r.stream, r.update({2 * t + 1, 1}, r.dtype), r.normal({t, 1}), part);
       }},
      {"gather_weighted", entry(&KernelTable::permute, &PermuteKernels::gather_weighted),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         const Tensor index = r.integers({3 * t}, Dtype::i64, t), scale = r.normal({3 * t}, r.acc());
         for (Layout layout : {Layout::contiguous, Layout::strided_rows}) {
           k.permute.gather_weighted(r.stream, r.output({3 * t, d}), r.normal({t, d}, layout), index, scale);
           k.permute.gather_weighted(r.stream, r.output({3 * t, d}, 1, layout), r.normal({t, d}), index, {});
         }
         const Tensor own = r.scratch({t}, Dtype::i64), in_place = r.update({t, d}, r.dtype);
         reference_table.slots.iota(r.host_stream, own, 0);
         for (const Tensor& factor : {Tensor{}, r.normal({t}, r.acc())})
           k.permute.gather_weighted(r.stream, in_place, in_place, own, factor);
       }},
      {"row_dots", entry(&KernelTable::permute, &PermuteKernels::row_dots),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         for (Layout layout : {Layout::contiguous, Layout::strided_rows})
           k.permute.row_dots(r.stream, r.output({t}, r.acc(), d), r.normal({t, d}), r.normal({t, d}, layout));
       }},
      {"put", entry(&KernelTable::permute, &PermuteKernels::put),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         const TwoWindows of(r);
         for (Layout layout : {Layout::contiguous, Layout::strided_rows, Layout::aligned_rows})
           for (const Tensor& index : {Tensor{}, r.integers({t}, Dtype::i64, t)})
             k.permute.put(r.stream, r.update({2 * of.rows, d}, r.dtype), of.distances, of.runs,
                           r.normal({t, d}, layout), index);
       }},
      {"pull", entry(&KernelTable::permute, &PermuteKernels::pull),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         const TwoWindows of(r);
         for (Layout layout : {Layout::contiguous, Layout::strided_rows, Layout::aligned_rows})
           k.permute.pull(r.stream, r.output({t, d}, 1, layout), r.normal({2 * of.rows, d}), of.distances, of.runs);
       }},
      {"embedding_forward", entry(&KernelTable::embedding, &EmbeddingKernels::forward),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         k.embedding.forward(r.stream, r.output({t, d}), r.normal({53, d}), r.integers({t}, Dtype::i32, 53));
       }},
      {"embedding_backward", entry(&KernelTable::embedding, &EmbeddingKernels::backward),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         k.embedding.backward(r.stream, r.update({53, d}, r.acc(), t), r.normal({t, d}),
                              r.integers({t}, Dtype::i32, 53));
         const Tensor some = r.scratch({t}, Dtype::i32);
         for (int64_t vocabulary : {53, 64}) {
           reference_table.index.within(r.host_stream, some, r.integers({t}, Dtype::i32, 90), 8, vocabulary);
           k.embedding.backward(r.stream, r.update({vocabulary, d}, r.acc(), t), r.normal({t, d}), some);
         }
       }},
  };
  for (const int64_t slots : {1, 2, 3}) {
    constexpr int64_t experts = 9;
    constexpr double tolerance = 0.7;
    // The experts of a token are consecutive. They do not depend on the logits, so the first expert is often not the
    // best.
    const auto ids_of = [slots](Trial& r) {
      std::vector<int32_t> ids;
      for (int64_t i = 0; i < r.size.rows * slots; ++i)
        ids.push_back(static_cast<int32_t>((i / slots * 4 + i % slots) % experts));
      return r.values<int32_t>(ids, {r.size.rows, slots});
    };
    cases.push_back({"sparse_mixer_forward_" + std::to_string(slots),
                     entry(&KernelTable::sparse_mixer, &SparseMixerKernels::forward), [=](K k, Trial& r) {
                       const int64_t t = r.size.rows;
                       k.sparse_mixer.forward(r.stream, r.output({t, slots}, r.acc(), experts),
                                              r.normal({t, experts}, r.acc()), ids_of(r), tolerance);
                     }});
    cases.push_back({"sparse_mixer_backward_" + std::to_string(slots),
                     entry(&KernelTable::sparse_mixer, &SparseMixerKernels::backward), [=](K k, Trial& r) {
                       const int64_t t = r.size.rows;
                       k.sparse_mixer.backward(r.stream, r.output({t, experts}, r.acc(), experts),
                                               r.normal({t, slots}, r.acc()), r.normal({t, experts}, r.acc()),
                                               ids_of(r), tolerance);
                       r.expect_zeros();  // only near candidates have a gradient
                     }});
  }
  for (const auto& [name, experts, rule] : rules()) {
    const auto operands = [experts = experts, rule = rule](Trial& r) {
      struct {
        Tensor scores, ids, weights;
      } o{r.scratch({r.size.rows, experts}, r.acc()), r.scratch({r.size.rows, rule.top_k}, Dtype::i32),
          r.scratch({r.size.rows, rule.top_k}, r.acc())};
      reference_table.router.forward(r.host_stream, o.scores, o.ids, o.weights,
                                     r.normal({r.size.rows, experts}, r.acc()), {}, rule);
      return o;
    };
    cases.push_back({"router_forward_" + name, entry(&KernelTable::router, &RouterKernels::forward),
                     [experts = experts, rule = rule](K k, Trial& r) {
                       const int64_t t = r.size.rows;
                       for (bool biased : {false, true})
                         k.router.forward(r.stream, r.output({t, experts}, r.acc(), experts),
                                          r.output({t, rule.top_k}, Dtype::i32),
                                          r.output({t, rule.top_k}, r.acc(), experts), r.normal({t, experts}, r.acc()),
                                          biased ? r.normal({experts}, r.acc()) : Tensor(), rule);
                     }});
    cases.push_back({"router_weigh_" + name, entry(&KernelTable::router, &RouterKernels::weigh),
                     [operands, rule = rule](K k, Trial& r) {
                       const auto o = operands(r);
                       k.router.weigh(r.stream, r.output(o.weights.shape(), r.acc(), rule.top_k), o.ids, o.scores,
                                      rule);
                     }});
    cases.push_back({"router_backward_" + name, entry(&KernelTable::router, &RouterKernels::backward),
                     [operands, experts = experts, rule = rule](K k, Trial& r) {
                       const auto o = operands(r);
                       if (experts == 1) return;  // the weight is one, so the gradient is a rounding error
                       for (bool auxiliary : {false, true})
                         k.router.backward(r.stream, r.output(o.scores.shape(), r.acc(), experts),
                                           r.normal(o.weights.shape(), r.acc()),
                                           auxiliary ? r.normal(o.scores.shape(), r.acc()) : Tensor(), o.scores, o.ids,
                                           rule);
                       r.expect_zeros();  // with sigmoid, only the chosen experts have a gradient
                     }});
  }
  return cases;
}

}  // namespace hexad::tests
