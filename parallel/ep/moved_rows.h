// Numbers of rows that one all-to-all moves.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/comm/operation.h"
#include "parallel/ep/node_steps.h"

namespace hexad::ep {

/// Numbers of rows of an all-to-all in the direction of dispatch. A return moves the same rows the other way.
struct MovedRows {
  comm::Splits splits;             // numbers of rows to send to, and receive from, each rank of the all-to-all
  std::optional<NodeSteps> steps;  // set if the all-to-all is hierarchical
  std::vector<int64_t> shared{};   // [etp]: rows received by each of the ranks that gather them
};

/// Returns the splits of the return, if those of dispatch are `there`.
inline comm::Splits returning(const comm::Splits& there) { return {there.receive, there.send}; }

}  // namespace hexad::ep
