// A step of a run on the meta device: the model, tape, passes, pipeline, buckets and optimizer of `hexad train`, of one
// rank of a layout, without memory and alone.
#pragma once

#include <array>
#include <vector>

#include "framework/device/memory.h"
#include "parallel/comm/traffic.h"
#include "tools/plan/routing_model.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// Results that are wanted of a step. Memory alone takes less time.
enum class Wanted : uint8_t { memory, all };

/// Memory and traffic of a step.
struct StepOnMeta {
  device::MemoryStats memory;                            // `held`: of blocks, as memory.limit_bytes counts them
  int64_t offloaded = 0;                                 // most bytes in offload memory
  std::array<double, comm::traffic_class_count> sent{};  // bytes, where all was wanted
};

/// Runs a step of rank `rank`, after one that made buffers and learned in which order weights are used. Sequences are
/// made of two documents each. If there are more than a few micro-batches for each pipeline stage, only a few are run,
/// provided that the pipeline has as many in flight with them, since its list repeats. Memory of the other tokens is
/// added, and traffic grows with the number of micro-batches as it does between this step and a shorter one. If all
/// are in flight at once (gpipe), memory grows so, too, from where it grows at all: what the update needs may be more.
/// If micro-batches have more than 2^18 tokens, two smaller sizes are run and extrapolated.
StepOnMeta step_on_meta(const train::Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout,
                        int rank, RoutingLoad load, Wanted wanted);

/// Memory of rank `rank` in a held-out evaluation: of the weights and of as many micro-batches as are evaluated at
/// once.
device::MemoryStats evaluation_on_meta(const train::Recipe& recipe, const train::Extensions& extensions,
                                       const mesh::Layout& layout, int rank);

/// By pipeline stage, ranks of which one needs the most: of what is cut unevenly over tp or etp the last of the ranks
/// that share it has the most, and others do alike. Where the recipe says what tokens choose, and no other load is
/// asked for, one for each ep coordinate: nobody knows whose experts are loaded.
std::vector<std::vector<int>> distinct_ranks(const train::Recipe& recipe, const mesh::Layout& layout, RoutingLoad load);

}  // namespace hexad::plan
