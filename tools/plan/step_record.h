// The operations that a rank issues in one step of `hexad train`, recorded by running its code on the meta device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/device/meta/issue_log.h"
#include "parallel/mesh/layout.h"
#include "tools/plan/routing_model.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// Operations of a rank in one step.
struct StepRecord {
  /// Part of the program that issues operations: "forward, micro-batch 0", "layers.3.moe", ...
  struct Span {
    std::string name;
    int32_t around;  // index of the enclosing span; -1: none
  };

  int rank;                                 // rank number in the world
  std::vector<device::Issue> issues;        // Issue::after and Issue::span are indices into this record
  std::vector<device::IssuedGroup> groups;  // indexed by CommunicationWork::group
  std::vector<Span> spans;

  /// Returns the names of the spans around an issue, outermost first, joined by " / ".
  std::string where(const device::Issue& issue) const;
  /// True if the issue is inside a span of this name, at any depth.
  bool is_in_span(const device::Issue& issue, std::string_view span) const;
  /// Returns the index of the first kernel or copy inside a span of this name. Ignores communication, because it may
  /// begin during the computation of an earlier span. Throws std::logic_error if the span has no kernel and no copy.
  size_t first_in(std::string_view span) const;
  /// Returns a flag for each span: true if the span belongs to the update. Two spans of train::TrainStep contain the
  /// kernels and copies after backward; these two spans and all spans inside them belong to the update.
  std::vector<bool> spans_of_update() const;
};

class RunOnMeta;
struct SharedByRuns;

/// True if the passes of the middle micro-batches of a step certainly issue the same operations and need the same
/// memory. The middle micro-batches are all except the first and the last. False in these cases:
/// - ZeRO-2 and ZeRO-3
/// - overlapping micro-batches
/// - routing that the recipe defines, if `load` does not replace it
/// - feed-forward layers and routers that a program adds
bool has_equal_passes(const train::Recipe& recipe, const RoutingLoad& load);

/// True if passes can be recorded once and repeated (RunOnMeta::repeat_passes()). Under ZeRO-0 and ZeRO-1, this
/// requires has_equal_passes(). Under ZeRO-2 and ZeRO-3, this requires equal kernels in all micro-batches, and gpipe or
/// 1f1b. In these pipelines, each rank computes the gradients of one micro-batch after the other. Gathers and
/// reductions may then differ between passes, because each repetition runs gathers and reductions again.
bool can_repeat_passes(const train::Recipe& recipe, const RoutingLoad& load);

/// True if equal layers can be recorded once and repeated (RunOnMeta::repeat_layers()). This requires
/// can_repeat_passes() and the same load of the experts in all layers. It also requires that the pipeline delays the
/// weight gradients of all micro-batches or of none, so dualpipe_v is excluded.
bool can_repeat_layers(const train::Recipe& recipe, const RoutingLoad& load);

/// Runs a step and records it. Moves the operations of earlier steps out of the run's log. Under ZeRO-1 and 2, gathers
/// of updated weights are still in flight when the next step begins. Therefore, the gathers at the end of the record
/// are moved to its beginning if the step is not the run's first step. There, these gathers represent the gathers of
/// the previous step, because all steps end with the same communication. In the record of a first step, the gathers are
/// at the end. Spans are recorded if the run follows them (RunOnMeta::follow_spans).
StepRecord record_step(RunOnMeta& run, int64_t micro_batches, int rank);

/// Returns the number of micro-batches after which the list of a pipeline's actions repeats.
int64_t repeated_micro_batches(const train::Recipe& recipe);

/// Records one step of rank `rank` for each entry of `micro_batches`. Other steps run before:
/// - under ZeRO-3: an equal step before each recorded step, which determines when weights are gathered
/// - otherwise: one step, which creates buffers and leaves gathers in flight
///
/// Passes are repeated if this is faster and can_repeat_passes() is true. A first step records the passes of one or two
/// of its micro-batches (RunOnMeta::repeat_passes()), and all later steps repeat these passes. Equal layers are
/// repeated if can_repeat_layers() is true: a first step records these layers. All steps begin again without these
/// repetitions if the recording shows that layers or passes cannot be repeated. In every case, the records equal the
/// records of steps without repetitions.
///
/// `node_of_rank` has the node of each rank. All ranks are on one node if `node_of_rank` is empty. `shared` holds
/// results of other runs; the runs of this call use these results and add their own. Runs share no results if `shared`
/// is null. The steps run on the meta device and take a millisecond for each layer and micro-batch that is not
/// repeated.
std::vector<StepRecord> record_steps(const train::Recipe& recipe, const train::Extensions& extensions,
                                     const mesh::Layout& layout, int rank, const RoutingLoad& load,
                                     std::span<const int64_t> micro_batches, const std::vector<int>& node_of_rank = {},
                                     std::shared_ptr<SharedByRuns> shared = nullptr);

}  // namespace hexad::plan
