// Pipeline schedules as data: the actions of every rank, in order. Pure functions make them. program_check.h checks
// them, price.h prices them, and pipeline_runner.h runs them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "parallel/pp/stage_map.h"

namespace hexad::pp {

struct Action {
  enum class Kind : uint8_t {
    forward,          // F
    backward,         // B: gradients of input and weights
    backward_input,   // I: gradient of the input only
    backward_weight,  // W: gradients of the weights, after a backward_input
  };
  Kind kind;
  int chunk;
  int micro;
  /// True on a forward that is merged with the backward after it. The two are of different micro-batches and may be
  /// computed as one: each hides its communication behind the other's products (DualPipe). They may also run one after
  /// the other.
  bool merged = false;

  bool is_forward() const { return kind == Kind::forward; }
  /// True if a gradient is sent to the previous stage.
  bool is_backward() const { return kind == Kind::backward || kind == Kind::backward_input; }
  bool operator==(const Action&) const = default;
};

/// Passes of each micro-batch: forward and backward, or only forward.
enum class Phase : uint8_t { training, evaluation };

struct Schedule {
  PipelineKind kind;
  StageMap stages;
  int micro_batches;
  std::vector<std::vector<Action>> ranks;  // the actions of each rank, in order
  Phase phase = Phase::training;
};

/// Makes a schedule. Any number of micro-batches is legal. Some papers' schedules need a minimum number (dualpipe_v:
/// twice the ranks, zb_v: one less than that) or a multiple of the ranks (interleaved). For other numbers, the paper's
/// schedule is made without the micro-batches that do not exist; the rest keeps its order, with more idle time.
/// Overlap::micro_batches: makes a list whose merged pairs should run as one. Throws Error(usage) for sizes below one,
/// and for Overlap::micro_batches with a kind that has no pairs.
Schedule make_schedule(const PipelineConfig& config, int ranks, int micro_batches);

/// Returns the schedule of an evaluation: the forwards of `schedule`, none of them merged.
Schedule forwards_of(Schedule schedule);

/// Returns "F0.3": kind, chunk, micro-batch. '+' joins a merged forward and its backward.
std::string to_string(const Action& action);
std::string to_string(std::span<const Action> actions);
/// Returns one line per rank.
std::string to_string(const Schedule& schedule);

}  // namespace hexad::pp
