// Costs of one rank in a job of many ranks, measured without the other ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/mesh/layout.h"

namespace hexad::bench {

/// Costs of one activity.
struct GrowthRow {
  std::string activity;
  int64_t messages = 0;       // messages of this rank in both directions
  int64_t message_bytes = 0;  // bytes of these messages
  int64_t memory_bytes = 0;   // maximum heap bytes in use, minus the bytes in use before the activity
  double seconds = 0;
};

/// Returns the sizes of a layout of `world` ranks with tp 8, pp up to 8 and ep up to 64. `world` must be a power of two
/// of at least 64.
mesh::Sizes growth_layout(int world);

/// Builds the objects of rank 0 in a job of `world` ranks, eight on each node, and returns the costs of these
/// activities:
/// - "nodes", "mesh and groups", "cores of a node", "groups of parameters"
/// - "control of a step", including the objects that compare the times of the ranks
/// - "control of a window": the other 15 steps of a window, and the search for slow ranks at the end of the window
/// - "comparison of replicas"
/// - "sum over all ranks", "all-to-all of all ranks": planned, but not executed
std::vector<GrowthRow> growth_rows(int world);
/// Returns the costs of a checkpoint of `world` ranks, each of which has written four pieces: "merging of a manifest"
/// and "files of a manifest" on rank 0, and "opening of a checkpoint" on a rank that looks up four tensors. Messages
/// are not measured; `message_bytes` of the last row is the size of the text that rank 0 would send to that rank.
/// Creates a temporary folder and removes it. Throws Error(resource) if the folder cannot be created.
std::vector<GrowthRow> checkpoint_growth_rows(int world);

}  // namespace hexad::bench
