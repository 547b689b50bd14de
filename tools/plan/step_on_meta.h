// A step of a run on the meta device: the model, tape, passes, pipeline, buckets and optimizer of `hexad train`, of one
// rank of a layout, without memory and alone.
#pragma once

#include <array>
#include <vector>

#include "framework/device/memory.h"
#include "parallel/comm/traffic.h"
#include "tools/plan/routing_model.h"
#include "tools/train/recipe.h"

namespace hexad::plan {

/// What is asked of a step. Memory alone takes less time.
enum class Wanted : uint8_t { memory, all };

/// What a step takes.
struct StepOnMeta {
  device::MemoryStats memory;  // `held`: of blocks, as memory.limit_bytes counts them
  int64_t offloaded = 0;       // bytes in offload memory at the most
  // Where all was wanted:
  double product_flops = 0, attention_flops = 0;
  std::array<double, comm::traffic_class_count> sent{};  // bytes
};

/// A step of a run of rank `rank`, after one that made buffers and learned in which order weights are used. Sequences
/// are made of two documents each. Of more than a few micro-batches a pipeline stage only these are run, if with
/// them the pipeline has as many in flight, since its list repeats: what the tokens of the others take in memory is
/// added, and traffic and operations grow with the number of micro-batches as they do between this step and a shorter
/// one.
StepOnMeta step_on_meta(const train::Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout,
                        int rank, RoutingLoad load, Wanted wanted);

/// One rank of each pipeline stage, in their order: the others of a stage do alike, and of what is cut unevenly over tp
/// the last of the ranks that share it has the most.
std::vector<int> ranks_that_differ(const mesh::Layout& layout);

}  // namespace hexad::plan
