// Random choices of experts, their routing plans, and rows that contain their source.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/ordinal.h"
#include "framework/base/philox.h"
#include "parallel/comm/self_group.h"
#include "parallel/ep/routing_plan.h"
#include "tests/ep/plan_for_ids.h"
#include "tests/support/lab.h"

namespace hexad::tests {

using namespace base;
using ep::Chunking;
using ep::EspExchange;
using ep::RoutingPlan;
using ep::RowOf;

/// Returns the routing plan with `world` as the ep group and with etp groups of one rank.
inline RoutingPlan plan_over(const comm::ProcessGroup& world, const Tensor& ids, int64_t experts,
                             const ep::RoutingOptions& options = {}) {
  static const comm::SelfGroup self;
  return plan_for_ids(ids, experts, {&world, &self, &world}, options, ids.device().context().compute());
}

/// Returns ids [T, top_k].
inline Tensor ids_of(Lab& lab, const std::vector<int32_t>& ids, int64_t top_k) {
  return Tensor::from<int32_t>(ids, {static_cast<int64_t>(ids.size()) / top_k, top_k}, lab.context);
}

/// Returns the random choices of `tokens` tokens, which are different on every rank. The experts of a token are
/// distinct. On average, one slot in five is dropped.
inline Tensor random_ids(Lab& lab, int rank, int64_t tokens, int64_t top_k, int64_t experts) {
  const Philox random(1, Purpose::route, cat("rank ", rank));
  std::vector<int32_t> ids;
  uint64_t n = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    std::set<int32_t> chosen;
    while (static_cast<int64_t>(chosen.size()) < top_k)
      chosen.insert(static_cast<int32_t>(random.below(n++, static_cast<uint64_t>(experts))));
    for (int32_t e : chosen) ids.push_back(random.below(n++, 5) == 0 ? -1 : e);
  }
  return ids_of(lab, ids, top_k);
}

/// Returns a row for each kept slot, [kept slots, 3]: the expert, the source rank and the index of the slot.
inline Tensor naming_rows(Lab& lab, const RoutingPlan& plan, const Tensor& ids, int rank) {
  const std::vector<int64_t> rows = plan.indices.rows.to_vector<int64_t>();
  const std::vector<int32_t> experts = ids.to_vector<int32_t>();
  std::vector<double> names(3 * plan.counts.slots());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0) continue;
    double* r = names.data() + 3 * rows[i];
    r[0] = experts[i], r[1] = rank, r[2] = static_cast<double>(i);
  }
  return lab.values(names, {plan.counts.slots(), 3});
}

/// Returns `rows` with row i moved to row place[i], or `rows` itself if `place` is undefined. If `into` is defined,
/// also writes the result to `into`.
inline Tensor placed(Lab& lab, const Tensor& rows, const Tensor& place, const Tensor& into) {
  const auto& k = kernels::kernels(rows.device());
  if (!place.defined()) {
    if (into.defined()) k.pointwise.copy(lab.stream(), into, rows);
    return rows;
  }
  const Tensor out = into.defined() ? into : Tensor::like(rows);
  k.permute.scatter(lab.stream(), out, rows, place);
  return out;
}

/// Division of rows into chunks.
struct Way {
  Chunking::By by;
  int chunks;
  bool merged;
};

inline std::string name_of(const Way& w) {
  constexpr std::string_view names[] = {"Tokens", "Peers", "Experts"};
  return cat(names[base::ordinal(w.by)], w.chunks, w.merged ? "Merged" : "");
}

}  // namespace hexad::tests
