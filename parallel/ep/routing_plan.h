// Who sends which rows where: the one object behind dispatch and combine.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "parallel/comm/process_group.h"

namespace hexad::ep {

using namespace tensor;

/// Made from the experts chosen by T local tokens in K slots. Experts lie in equal blocks on the ranks of the ep group:
/// rank r has experts [r E/P, (r + 1) E/P). Rows are sorted by expert, then token, then slot, so results are
/// deterministic. Where etp ranks share each expert's width, every one of them works on the rows that all of them have
/// received. Counts and offsets are int64.
struct RoutingPlan {
  Tensor tokens;                 // [S] i64: token of each row to send, S = kept slots
  Tensor rows;                   // [T, K] i64: row of each slot; -1: dropped
  comm::Splits splits;           // rows to and from each rank
  std::vector<int64_t> shared;   // [etp]: rows that each etp rank received; R is their sum
  Tensor regroup;                // [R] i64: shared row of each grouped row; undefined: already grouped
  Tensor ungroup;                // [R] i64: its inverse
  std::vector<int64_t> offsets;  // [E/P + 1]: grouped rows of each local expert; R = offsets.back()

  int64_t rows_to_send() const { return tokens.dim(0); }
  int64_t rows_received() const { return std::accumulate(splits.receive.begin(), splits.receive.end(), int64_t{0}); }
  int64_t rows_computed() const { return offsets.back(); }
};

/// Collective over `ep` and `etp`: the ranks exchange their counts by expert once (the full matrix), before any data
/// moves. ids: [T, K] i32, entries in [0, experts) or -1 for a dropped slot.
RoutingPlan make_routing_plan(const Tensor& ids, int64_t experts, const comm::ProcessGroup& ep,
                              const comm::ProcessGroup& etp);

}  // namespace hexad::ep
