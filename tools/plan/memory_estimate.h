// Estimates of a rank's memory, before the job runs.
#pragma once

#include <memory>

#include "tools/plan/routing_model.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

struct SharedByRuns;

/// Estimated memory of a rank, in bytes. The estimate is the largest possible peak, which occurs if the other ranks are
/// as late as the schedule allows. A rank whose peers are prompt may free tensors of collectives earlier
/// (least_memory()).
struct MemoryEstimate {
  double weights = 0, gradients = 0, optimizer = 0;
  double activations = 0;  // peak of the tensors kept for backward
  double connections = 0;  // NCCL's buffers; 0 if ranks do not communicate by NCCL
  // Rest of the peak: results of running operations, scratch memory, pieces of other ranks' tensors.
  double temporary = 0;
  double offloaded = 0;  // bytes in offload memory: a file, or a GPU's host memory; not part of the total
  double total = 0;
  double blocks = 0;  // total if the size of every block is rounded up (device::block_size), as for memory.limit_bytes
  int in_flight = 1;  // pairs of a micro-batch and a virtual stage whose activations are kept at the same time
};

struct StepOnMeta;
/// Returns the memory that the allocator of `step` counted.
MemoryEstimate memory_of(const StepOnMeta& step, const train::Recipe& recipe, const mesh::Layout& layout, int rank);
/// Estimates the memory of rank `rank` of the layout at the peak of a step. The allocator of a meta device counts the
/// bytes of one step (step_on_meta). Scratch memory of kernels, and of transports other than NCCL, is not counted.
/// Lanes run inline, so the estimate assumes that all lanes free memory in the order of the graph. If schedule.moe
/// contains auto, the estimate applies to the run until the automatic choice is made.
MemoryEstimate estimate_memory(const train::Recipe& recipe, const train::Extensions& extensions,
                               const mesh::Layout& layout, int rank, RoutingLoad load = RoutingLoad::even);
/// Estimates the total memory of rank `rank` at the peak of a step, in bytes, if no other rank is ever late. The peak
/// of a run is between this number and the total of estimate_memory().
double least_memory(const train::Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout,
                    int rank);
/// Estimates, for each pipeline stage, the memory of the rank that needs the most. The job has `world` ranks.
std::vector<MemoryEstimate> estimate_stages(const train::Recipe& recipe, const train::Extensions& extensions,
                                            int64_t world, RoutingLoad load = RoutingLoad::even);
/// Estimates the memory of an evaluation on held-out data, for the rank of each pipeline stage that needs the most.
std::vector<MemoryEstimate> estimate_evaluation(const train::Recipe& recipe, const train::Extensions& extensions,
                                                int64_t world);
/// Estimates the memory of the rank that needs the most. Stops at the first rank that needs more than `limit` bytes in
/// total, and returns the memory of that rank. `shared` holds results of other runs. The runs of this call use these
/// results and add their own. If `shared` is null, the runs of this call share results only with each other.
MemoryEstimate estimate_memory_within(double limit, const train::Recipe& recipe, const train::Extensions& extensions,
                                      int64_t world, RoutingLoad load = RoutingLoad::even,
                                      std::shared_ptr<SharedByRuns> shared = nullptr);
/// Estimates the memory of the rank that needs the most. `shared` is as in estimate_memory_within().
MemoryEstimate estimate_memory(const train::Recipe& recipe, const train::Extensions& extensions, int64_t world,
                               RoutingLoad load = RoutingLoad::even, std::shared_ptr<SharedByRuns> shared = nullptr);

}  // namespace hexad::plan
