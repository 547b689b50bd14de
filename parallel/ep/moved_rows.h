// Numbers of rows that one all-to-all moves.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/comm/operation.h"
#include "parallel/ep/node_steps.h"

namespace hexad::ep {

/// Numbers of rows of an all-to-all, in the direction of dispatch. The return sends the same rows in the opposite
/// direction.
struct MovedRows {
  comm::Splits splits;             // numbers of rows to send to, and receive from, each rank of the all-to-all
  std::optional<NodeSteps> steps;  // set if the all-to-all is hierarchical
  // [etp]: number of rows that each etp rank contributes to the all-gather over the etp ranks, even if there is only
  // one etp rank. Empty without EspExchange::gather, and in a ReturnPhase.
  std::vector<int64_t> shared{};
};

/// Returns the splits with which rows are sent back. `there` are the splits of the dispatch.
inline comm::Splits returning(const comm::Splits& there) { return {there.receive, there.send}; }

}  // namespace hexad::ep
