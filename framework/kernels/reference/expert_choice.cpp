#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

// An expert that may choose n tokens chooses a token if fewer than n tokens precede the token in the expert's order. Of
// the experts that chose a token, the token keeps the first K in the token's order.
void choose_tokens(Stream& stream, const Tensor& ids, const Tensor& scores, const Tensor& rows, int64_t scope_tokens,
                   double factor) {
  stream.run([=] {
    const Array Scores = load(scores), Rows = rows.defined() ? load(rows) : Array{};
    Array Out = zeros(ids);
    for (double& id : Out.values) id = -1;
    const int64_t tokens = Scores.rows, experts = Scores.columns, slots = Out.columns;
    const auto row_of = [&](int64_t t) { return rows.defined() ? index_at(Rows, t) : t; };
    const auto score = [&](int64_t t, int64_t e) {
      const double s = Scores(row_of(t), e);
      return std::isnan(s) ? -std::numeric_limits<double>::infinity() : s;
    };
    const auto chooses = [&](int64_t e, int64_t t) {
      const int64_t begin = t / scope_tokens * scope_tokens, end = std::min(tokens, begin + scope_tokens);
      int64_t valid = 0;
      double before = 0;
      for (int64_t u = begin; u < end; ++u) {
        if (row_of(u) < 0) continue;
        ++valid;
        before += score(u, e) > score(t, e) || (score(u, e) == score(t, e) && u < t);
      }
      const double mean = static_cast<double>(slots * valid) / static_cast<double>(experts);
      return before < std::min(static_cast<double>(valid), std::ceil(factor * mean));
    };
    for (int64_t t = 0; t < tokens; ++t) {
      if (row_of(t) < 0) continue;
      std::vector<int64_t> chosen_by;
      for (int64_t e = 0; e < experts; ++e)
        if (chooses(e, t)) chosen_by.push_back(e);
      for (const int64_t e : chosen_by) {
        int64_t slot = 0;
        for (const int64_t f : chosen_by) slot += score(t, f) > score(t, e) || (score(t, f) == score(t, e) && f < e);
        if (slot < slots) Out(row_of(t), slot) = static_cast<double>(e);
      }
    }
    store(ids, Out);
  });
}

void forward(Stream& stream, const Tensor& weights, const Tensor& scores, const Tensor& ids) {
  stream.run([=] {
    const Array S = load(scores), Ids = load(ids);
    Array W = zeros(weights);
    for (int64_t t = 0; t < W.rows; ++t)
      for (int64_t k = 0; k < W.columns; ++k)
        if (const int64_t e = index_at(Ids, t * W.columns + k); e >= 0) W(t, k) = S(t, e);
    store(weights, W);
  });
}

void backward(Stream& stream, const Tensor& dscores, const Tensor& dweights, const Tensor& ids) {
  stream.run([=] {
    const Array DW = load(dweights), Ids = load(ids);
    Array DS = zeros(dscores);
    for (int64_t t = 0; t < DW.rows; ++t)
      for (int64_t k = 0; k < DW.columns; ++k)
        if (const int64_t e = index_at(Ids, t * DW.columns + k); e >= 0) DS(t, e) += DW(t, k);
    store(dscores, DS);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const ExpertChoiceKernels ExpertChoiceKernels::of_reference{
    .choose = reference::choose_tokens, .forward = reference::forward, .backward = reference::backward};

}  // namespace hexad::kernels
