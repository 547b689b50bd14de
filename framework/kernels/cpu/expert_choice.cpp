#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/kernel_table.h"
#include "framework/kernels/operand_checks.h"

namespace hexad::kernels::cpu {
namespace {

/// Scores of all rows, in which NaN counts as -infinity.
template <class A>
struct Scores {
  const A* scores;
  int64_t experts;

  A at(int64_t row, int64_t expert) const {
    const A score = scores[row * experts + expert];
    return std::isnan(score) ? -std::numeric_limits<A>::infinity() : score;
  }
};

// Sets chosen[row, expert] (u8 [T, E]) to 1 for the `most` rows that the expert chooses among `rows`. `rows` is in the
// order of the tokens.
template <class A>
void choose_for(int64_t expert, const std::vector<int64_t>& rows, int64_t most, const Scores<A>& scores,
                uint8_t* chosen) {
  struct Candidate {
    A score;
    int64_t place;  // index in `rows`
  };
  std::vector<Candidate> order;
  order.reserve(rows.size());
  for (const int64_t row : rows) order.push_back({scores.at(row, expert), static_cast<int64_t>(order.size())});
  // The order is total, so the set of the first `most` candidates is unique.
  std::nth_element(order.begin(), order.begin() + most, order.end(), [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.place < b.place;
  });
  for (int64_t i = 0; i < most; ++i) chosen[rows[order[i].place] * scores.experts + expert] = 1;
}

// Writes the experts ids[0, K) that the token in row `row` keeps. `by` is scratch memory.
template <class A>
void keep_for(int64_t row, int32_t* ids, int64_t slots, const Scores<A>& scores, const uint8_t* chosen,
              std::vector<int32_t>& by) {
  by.clear();
  for (int64_t e = 0; e < scores.experts; ++e)
    if (chosen[row * scores.experts + e]) by.push_back(static_cast<int32_t>(e));
  // The experts are in ascending order. Among equal scores, a stable sort therefore keeps the lower index first.
  std::stable_sort(by.begin(), by.end(), [&](int32_t a, int32_t b) { return scores.at(row, a) > scores.at(row, b); });
  for (int64_t k = 0; k < slots; ++k) ids[k] = k < std::ssize(by) ? by[k] : -1;
}

void choose_tokens(Stream& stream, const Tensor& ids, const Tensor& scores, const Tensor& rows, int64_t scope_tokens,
                   double factor) {
  require(scope_tokens > 0 && factor >= 0, "[expert_choice] scopes have ", scope_tokens, " tokens, and the factor is ",
          factor, "; expected at least 1 token and a factor of at least 0");
  stream.run([=] {
    const int64_t tokens = scores.dim(0), experts = scores.dim(1), slots = ids.dim(1);
    require_flat("expert_choice", "scores", scores, tokens * experts);
    require_flat("expert_choice", "ids", ids, tokens * slots);
    if (rows.defined()) require_flat("expert_choice", "rows", rows, tokens);
    const int64_t* row = rows.defined() ? distinct_indices("expert_choice", "rows", rows, -1, tokens) : nullptr;
    with_dtype<float, double>("expert_choice", scores.dtype(), [&]<class A>() {
      const Scores<A> all{scores.data<A>(), experts};
      std::vector<uint8_t> chosen(tokens * experts);
      std::vector<int64_t> in_scope;
      for (int64_t begin = 0; begin < tokens; begin += scope_tokens) {
        in_scope.clear();
        for (int64_t t = begin; t < std::min(tokens, begin + scope_tokens); ++t)
          if (!row || row[t] >= 0) in_scope.push_back(row ? row[t] : t);
        const int64_t valid = std::ssize(in_scope);
        const int64_t most = tokens_of_expert(valid, slots, experts, factor);
        parallel_for(experts, row_grain(8 * valid), [&](int64_t first, int64_t last) {
          for (int64_t e = first; e < last; ++e) choose_for<A>(e, in_scope, most, all, chosen.data());
        });
      }
      int32_t* id = ids.data<int32_t>();
      parallel_for(tokens, row_grain(4 * experts), [&](int64_t first, int64_t last) {
        std::vector<int32_t> by;
        for (int64_t r = first; r < last; ++r) keep_for<A>(r, id + r * slots, slots, all, chosen.data(), by);
      });
    });
  });
}

void forward(Stream& stream, const Tensor& weights, const Tensor& scores, const Tensor& ids) {
  stream.run([=] {
    const ChoiceSizes n = choice_sizes("scores", scores, "weights", weights, ids);
    const int32_t* id = checked_indices<int32_t>("expert_choice", "ids", ids, -1, n.experts);
    with_dtype<float, double>("expert_choice", scores.dtype(), [&]<class A>() {
      const A* s = scores.data<A>();
      A* w = weights.data<A>();
      for (int64_t i = 0; i < n.tokens * n.slots; ++i) w[i] = id[i] < 0 ? A{0} : s[i / n.slots * n.experts + id[i]];
    });
  });
}

void backward(Stream& stream, const Tensor& dscores, const Tensor& dweights, const Tensor& ids) {
  stream.run([=] {
    const ChoiceSizes n = choice_sizes("dscores", dscores, "dweights", dweights, ids);
    const int32_t* id = checked_indices<int32_t>("expert_choice", "ids", ids, -1, n.experts);
    with_dtype<float, double>("expert_choice", dscores.dtype(), [&]<class A>() {
      const A* dw = dweights.data<A>();
      A* ds = dscores.data<A>();
      std::fill(ds, ds + n.tokens * n.experts, A{0});
      for (int64_t i = 0; i < n.tokens * n.slots; ++i)
        if (id[i] >= 0) ds[i / n.slots * n.experts + id[i]] += dw[i];
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const ExpertChoiceKernels ExpertChoiceKernels::of_cpu{
    .choose = cpu::choose_tokens, .forward = cpu::forward, .backward = cpu::backward};

}  // namespace hexad::kernels
