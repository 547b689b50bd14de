#include <cmath>
#include <limits>

#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

// Drops a slot if at least `most` slots of its expert and scope precede it. Slots are in the order of their tokens or,
// with DropRule::probability, in the order of descending scores.
void drop(Stream& stream, const Tensor& ids, const Tensor& scores, const Tensor& rows, const Capacity& capacity) {
  stream.run([=] {
    const Array Scores = load(scores), Rows = rows.defined() ? load(rows) : Array{};
    const Array Ids = load(ids);
    Array Out = Ids;
    const int64_t tokens = Ids.rows, experts = Scores.columns;
    const auto row_of = [&](int64_t t) { return rows.defined() ? index_at(Rows, t) : t; };
    const auto names_one = [&](int64_t t, int64_t k) {
      const double e = Ids(row_of(t), k);
      return e >= 0 && e < static_cast<double>(experts);
    };
    const auto score = [&](int64_t t, int64_t e) {
      const double s = Scores(row_of(t), e);
      return std::isnan(s) ? -std::numeric_limits<double>::infinity() : s;
    };
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t begin = t / capacity.scope_tokens * capacity.scope_tokens;
      const int64_t end = std::min(tokens, begin + capacity.scope_tokens);
      int64_t valid = 0;
      for (int64_t u = begin; u < end; ++u) {
        bool any = false;
        for (int64_t k = 0; k < Ids.columns; ++k) any |= names_one(u, k);
        valid += any;
      }
      const double mean = static_cast<double>(Ids.columns * valid) / static_cast<double>(experts);
      const double most = std::min(static_cast<double>(valid), std::ceil(capacity.factor * mean));
      for (int64_t k = 0; k < Ids.columns; ++k) {
        if (!names_one(t, k)) continue;
        const auto e = static_cast<int64_t>(Ids(row_of(t), k));
        double before = 0;
        for (int64_t u = begin; u < end; ++u)
          for (int64_t j = 0; j < Ids.columns; ++j) {
            if (Ids(row_of(u), j) != static_cast<double>(e)) continue;
            const bool higher = capacity.rule == DropRule::probability && score(u, e) > score(t, e);
            const bool equal = capacity.rule == DropRule::position || score(u, e) == score(t, e);
            before += higher || (equal && u < t);
          }
        if (before >= most) Out(row_of(t), k) = -1;
      }
    }
    store(ids, Out);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const CapacityKernels CapacityKernels::of_reference{.drop = reference::drop};

}  // namespace hexad::kernels
