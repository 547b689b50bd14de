#include "parallel/ep/routing_plan.h"

#include <numeric>

namespace hexad::ep {
namespace {

// Exclusive prefix sums with the total at the end.
std::vector<int64_t> offsets_of(const std::vector<int64_t>& counts) {
  std::vector<int64_t> offsets(counts.size() + 1, 0);
  std::inclusive_scan(counts.begin(), counts.end(), offsets.begin() + 1);
  return offsets;
}

// Rows arrive by (source rank, expert); the grouped products want (expert, source rank).
void make_regrouping(RoutingPlan& plan, const std::vector<int64_t>& matrix, int64_t experts, int64_t first,
                     int64_t local, int64_t ranks, Device device) {
  std::vector<int64_t> arrival(static_cast<size_t>(ranks * local));  // first received row of (rank, expert)
  int64_t row = 0;
  for (int64_t r = 0; r < ranks; ++r)
    for (int64_t e = 0; e < local; ++e) {
      arrival[static_cast<size_t>(r * local + e)] = row;
      row += matrix[static_cast<size_t>(r * experts + first + e)];
    }
  plan.regroup = Tensor::empty({row}, Dtype::i64, device, Category::communication);
  plan.ungroup = Tensor::like(plan.regroup, Category::communication);
  int64_t *to = plan.regroup.data<int64_t>(), *back = plan.ungroup.data<int64_t>();
  int64_t grouped = 0;
  for (int64_t e = 0; e < local; ++e)
    for (int64_t r = 0; r < ranks; ++r) {
      const int64_t begin = arrival[static_cast<size_t>(r * local + e)];
      const int64_t count = matrix[static_cast<size_t>(r * experts + first + e)];
      for (int64_t i = 0; i < count; ++i, ++grouped) to[grouped] = begin + i, back[begin + i] = grouped;
    }
}

}  // namespace

RoutingPlan make_routing_plan(const Tensor& ids, int64_t experts, const comm::ProcessGroup& ep) {
  const int64_t ranks = ep.size();
  require(experts % ranks == 0, "[ep] ", experts, " experts over ", ranks, " ranks");
  const int64_t local = experts / ranks, slots = ids.numel(), top_k = ids.dim(1);
  const int32_t* id = ids.data<int32_t>();

  std::vector<int64_t> counts(static_cast<size_t>(experts), 0);
  for (int64_t i = 0; i < slots; ++i) {
    require(id[i] >= -1 && id[i] < experts, "[ep] slot ", i, " names expert ", id[i], " of ", experts);
    if (id[i] >= 0) ++counts[static_cast<size_t>(id[i])];
  }
  const std::vector<int64_t> matrix = ep.all_gather_values(counts, ids.device());  // [ranks, experts]

  RoutingPlan plan;
  std::vector<int64_t> next = offsets_of(counts);
  plan.tokens = Tensor::empty({next.back()}, Dtype::i64, ids.device(), Category::communication);
  plan.rows = Tensor::empty(ids.shape(), Dtype::i64, ids.device(), Category::communication);
  int64_t *tokens = plan.tokens.data<int64_t>(), *rows = plan.rows.data<int64_t>();
  for (int64_t i = 0; i < slots; ++i) {
    rows[i] = id[i] < 0 ? -1 : next[static_cast<size_t>(id[i])]++;
    if (rows[i] >= 0) tokens[rows[i]] = i / top_k;
  }

  const int64_t first = ep.rank() * local;
  std::vector<int64_t> mine(static_cast<size_t>(local), 0);
  for (int64_t r = 0; r < ranks; ++r) {
    int64_t to = 0, from = 0;
    for (int64_t e = 0; e < local; ++e) {
      to += counts[static_cast<size_t>(r * local + e)];
      const int64_t count = matrix[static_cast<size_t>(r * experts + first + e)];
      from += count;
      mine[static_cast<size_t>(e)] += count;
    }
    plan.splits.send.push_back(to);
    plan.splits.receive.push_back(from);
  }
  plan.offsets = offsets_of(mine);
  if (ranks > 1 && local > 1) make_regrouping(plan, matrix, experts, first, local, ranks, ids.device());
  return plan;
}

}  // namespace hexad::ep
