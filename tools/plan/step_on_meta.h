// A step of a run on the meta device, without allocating tensors and without other ranks. It has the model, tape,
// passes, pipeline, buckets and optimizer of `hexad train`, for one rank of a layout.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "framework/device/memory.h"
#include "parallel/comm/traffic.h"
#include "tools/plan/shared_by_runs.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// Requested results of a step. `memory` takes less time to compute than `all`. The memory is the largest possible: the
/// other ranks are as late as the schedule allows. With `least_memory`, the memory is that of a rank whose peers are
/// never late.
enum class Wanted : uint8_t { memory, least_memory, all };

/// Memory and traffic of a step.
struct StepOnMeta {
  device::MemoryStats memory;                            // `held` counts whole blocks, as memory.limit_bytes does
  int64_t offloaded = 0;                                 // peak bytes in offload memory
  std::array<double, comm::traffic_class_count> sent{};  // bytes by traffic class, with Wanted::all
};

/// Runs two steps of rank `rank` and returns the memory and the traffic of the second step. The first step creates
/// buffers. Under ZeRO-3, the first step also records the order in which weights are used, and has as many
/// micro-batches as the second step. Otherwise, it has few micro-batches: two if layers are repeated, and one if all
/// passes are equal (has_equal_passes()). In other cases, it has the number of micro-batches after which the actions of
/// every rank repeat. Each sequence has two documents.
/// - Only a few micro-batches are run if each pipeline stage has many micro-batches (except under gpipe). This requires
///   that the pipeline has as many micro-batches in flight in a step with few micro-batches as in the whole step. The
///   memory of the other micro-batches' tokens is added. Under 1F1B and ZB-H1 with equal passes (has_equal_passes()),
///   two more micro-batches are run than are in flight on the rank. Under ZB-H1, if host threads send, three more
///   micro-batches are run than there are stages. Traffic is extrapolated from this step and a step with fewer
///   micro-batches.
/// - Memory and traffic are extrapolated from two numbers of micro-batches if all micro-batches are in flight at the
///   same time (gpipe). These numbers are large enough for the peak to grow at least by the tensors kept for backward.
///   With fewer micro-batches, the update might need more memory than the passes.
/// - Two smaller sizes of micro-batches are run, and the results are extrapolated, if micro-batches have more than 2^18
///   tokens. The pipeline stages of the smaller runs have the layers that the recipe's stages have.
///
/// `shared` holds results of other runs; this run uses these results and adds its own. The run shares no results if
/// `shared` is null.
StepOnMeta step_on_meta(const train::Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout,
                        int rank, const RoutingLoad& load, Wanted wanted,
                        const std::shared_ptr<SharedByRuns>& shared = nullptr);

/// True if step_on_meta() runs micro-batches of the recipe's size. Otherwise, it extrapolates from two smaller sizes.
bool runs_whole_micro_batches(const train::Recipe& recipe);
/// Returns a number of micro-batches with which a step has the memory that step_on_meta() returns, except the memory of
/// tokens. The number applies to every rank of the layout. Under 1F1B and ZB-H1 with equal passes, step_on_meta() may
/// run fewer micro-batches on ranks that reach the same memory with fewer. Returns none under gpipe, because
/// step_on_meta() then extrapolates the memory, and the numbers of micro-batches that it runs may differ between ranks.
std::optional<int64_t> micro_batches_in_memory(const train::Recipe& recipe, const mesh::Layout& layout,
                                               const RoutingLoad& load);

/// Returns the memory of rank `rank` in an evaluation on held-out data: the weights and all micro-batches that are
/// evaluated at the same time.
device::MemoryStats evaluation_on_meta(const train::Recipe& recipe, const train::Extensions& extensions,
                                       const mesh::Layout& layout, int rank);

/// Returns, for each pipeline stage, the ranks that may need the most memory. The last rank that shares data needs the
/// most memory if the data are split unevenly over tp or etp. Apart from that, the ranks of a stage have equal memory.
///
/// Returns one rank for each ep coordinate in two cases, because the experts of any ep coordinate may get the most
/// rows:
/// - The loads of experts are given.
/// - The recipe defines the routing, and no other load is requested.
std::vector<std::vector<int>> distinct_ranks(const train::Recipe& recipe, const mesh::Layout& layout, RoutingLoad load);

}  // namespace hexad::plan
