// Pipeline schedules as data: the actions of every rank, in order. Pure functions make schedules. program_check.h
// checks them, price.h predicts their times, and pipeline_runner.h runs them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "parallel/pp/stage_map.h"

namespace hexad::pp {

struct Action {
  enum class Kind : uint8_t {
    forward,          // F: output of a virtual stage
    backward,         // B: gradients of the input and the weights
    backward_input,   // I: gradient of the input only
    backward_weight,  // W: gradients of the weights, after a backward_input
  };
  Kind kind;
  int local_stage;  // index of the virtual stage on its rank (stage_map.h)
  int micro;
  /// True for a forward that is merged with the backward after it. The two actions belong to different micro-batches
  /// and may run as one: each then hides its communication behind the computation of the other (DualPipe). They may
  /// also run one after the other.
  bool merged = false;

  bool is_forward() const { return kind == Kind::forward; }
  /// True if the action computes the gradient of the virtual stage's input.
  bool is_backward() const { return kind == Kind::backward || kind == Kind::backward_input; }
  bool operator==(const Action&) const = default;
};

/// Passes over each micro-batch: forward and backward, or only forward.
enum class Phase : uint8_t { training, evaluation };

struct Schedule {
  PipelineKind kind;
  StageMap stages;
  int micro_batches;
  std::vector<std::vector<Action>> ranks;  // the actions of each rank, in order
  Phase phase = Phase::training;
};

/// Makes a schedule for any number of micro-batches. Some papers require a minimum number (dualpipe_v: 2 x ranks; zb_v:
/// 2 x ranks - 1) or a multiple of the number of ranks (interleaved). For other numbers, makes the paper's schedule and
/// removes the surplus micro-batches. The remaining micro-batches keep their order, but ranks are idle for longer. The
/// lists of dualpipe_v can contain merged pairs with any Overlap. The lists of 1f1b contain merged pairs only with
/// Overlap::micro_batches. With Overlap::micro_batches, the pairs should run as one action. Throws Error(usage) for
/// sizes below one, and for Overlap::micro_batches if the kind has no pairs.
Schedule make_schedule(const PipelineConfig& config, int ranks, int micro_batches);

/// Returns the schedule of an evaluation: only the forwards of `schedule`, none of them merged.
Schedule forwards_of(Schedule schedule);

/// Returns a text like "F0.3": kind, local stage and micro-batch. A '+' joins a merged forward to its backward.
std::string to_string(const Action& action);
std::ostream& operator<<(std::ostream& out, const Action& action);
std::string to_string(std::span<const Action> actions);
/// Returns a text with one line for each rank.
std::string to_string(const Schedule& schedule);

}  // namespace hexad::pp
