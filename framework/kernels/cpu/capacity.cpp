#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {
namespace {

struct Slot {
  int32_t* id;
  double score;
};

template <class T>
void drop_in(const std::vector<int64_t>& rows, const Tensor& ids, const Tensor& scores, const Capacity& c) {
  const int64_t top_k = ids.dim(1), experts = scores.dim(1);
  auto* id = ids.data<int32_t>();
  const auto* score = scores.data<T>();
  std::vector<std::vector<Slot>> queues(experts);
  int64_t valid = 0;
  for (const int64_t row : rows) {
    bool any = false;
    for (int32_t* slot = id + row * top_k; slot < id + (row + 1) * top_k; ++slot) {
      if (*slot < 0 || *slot >= experts) continue;
      any = true;
      // NaN has no order. It therefore counts as -inf and is sorted last.
      const auto s = static_cast<double>(score[row * experts + *slot]);
      queues[*slot].push_back({slot, std::isnan(s) ? -std::numeric_limits<double>::infinity() : s});
    }
    valid += any;
  }
  const double mean = static_cast<double>(top_k * valid) / static_cast<double>(experts);
  // Limits the result before the cast, because a huge factor gives a result that exceeds every integer type.
  const auto most = static_cast<size_t>(std::min(static_cast<double>(valid), std::ceil(c.factor * mean)));
  for (auto& q : queues) {
    if (q.size() <= most) continue;
    // The queue is in token order. Among equal scores, a stable sort therefore keeps earlier tokens first.
    if (c.rule == DropRule::probability)
      std::stable_sort(q.begin(), q.end(), [](const Slot& a, const Slot& b) { return a.score > b.score; });
    for (size_t i = most; i < q.size(); ++i) *q[i].id = -1;
  }
}

void drop(Stream& stream, const Tensor& ids, const Tensor& scores, const Tensor& rows, const Capacity& capacity) {
  require(capacity.scope_tokens > 0 && capacity.factor >= 0, "[drop] scopes have ", capacity.scope_tokens,
          " tokens, and the factor is ", capacity.factor, "; expected at least 1 token and a factor of at least 0");
  stream.run([=] {
    const int64_t tokens = ids.dim(0);
    require_flat("drop", "ids", ids, tokens * ids.dim(1));
    require_flat("drop", "scores", scores, tokens * scores.dim(1));
    if (rows.defined()) require_flat("drop", "rows", rows, tokens);
    const int64_t* row = rows.defined() ? distinct_indices("drop", "rows", rows, 0, tokens) : nullptr;
    std::vector<int64_t> in_scope;
    for (int64_t begin = 0; begin < tokens; begin += capacity.scope_tokens) {
      in_scope.clear();
      for (int64_t t = begin; t < std::min(tokens, begin + capacity.scope_tokens); ++t)
        in_scope.push_back(row ? row[t] : t);
      with_dtype<float, double>("drop", scores.dtype(),
                                [&]<class T>() { drop_in<T>(in_scope, ids, scores, capacity); });
    }
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const CapacityKernels CapacityKernels::of_cpu{.drop = cpu::drop};

}  // namespace hexad::kernels
