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

// Shared rows lie by (etp rank that received them, source rank, expert); the grouped products want (expert, etp rank,
// source rank). counts: [sources, local experts], a source being an (etp rank, ep rank).
void make_regrouping(RoutingPlan& plan, const std::vector<int64_t>& counts, int64_t local, Device device) {
  const int64_t sources = static_cast<int64_t>(counts.size()) / local;
  const std::vector<int64_t> first = offsets_of(counts);  // shared row of (source, expert)
  plan.regroup = Tensor::empty({first.back()}, Dtype::i64, device, Category::communication);
  plan.ungroup = Tensor::like(plan.regroup, Category::communication);
  int64_t *to = plan.regroup.data<int64_t>(), *back = plan.ungroup.data<int64_t>();
  int64_t grouped = 0;
  for (int64_t e = 0; e < local; ++e)
    for (int64_t s = 0; s < sources; ++s) {
      const auto at = static_cast<size_t>(s * local + e);
      for (int64_t row = first[at]; row < first[at + 1]; ++row, ++grouped) to[grouped] = row, back[row] = grouped;
    }
}

}  // namespace

RoutingPlan make_routing_plan(const Tensor& ids, int64_t experts, const comm::ProcessGroup& ep,
                              const comm::ProcessGroup& etp) {
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
  std::vector<int64_t> received;  // [ep ranks, local experts]
  for (int64_t r = 0; r < ranks; ++r) {
    const auto row = matrix.begin() + r * experts + first;
    received.insert(received.end(), row, row + local);
    plan.splits.receive.push_back(std::accumulate(row, row + local, int64_t{0}));
    const auto mine = counts.begin() + r * local;
    plan.splits.send.push_back(std::accumulate(mine, mine + local, int64_t{0}));
  }
  const std::vector<int64_t> shared = etp.all_gather_values(received, ids.device());  // [etp ranks, ep ranks, experts]
  std::vector<int64_t> by_expert(static_cast<size_t>(local), 0);
  for (size_t i = 0; i < shared.size(); ++i) by_expert[i % static_cast<size_t>(local)] += shared[i];
  for (int64_t q = 0; q < etp.size(); ++q) {
    const auto part = shared.begin() + q * ranks * local;
    plan.shared.push_back(std::accumulate(part, part + ranks * local, int64_t{0}));
  }
  plan.offsets = offsets_of(by_expert);
  if (ranks * etp.size() > 1 && local > 1) make_regrouping(plan, shared, local, ids.device());
  return plan;
}

}  // namespace hexad::ep
