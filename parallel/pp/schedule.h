// Pipeline schedules as data: what every rank computes, in which order. Made by pure functions, checked by check.h,
// priced by price.h, run by runner.h.
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
    backward_input,   // I: of the input only
    backward_weight,  // W: what backward_input left
  };
  Kind kind;
  int chunk;
  int micro;
  /// True on a forward that a backward follows: they are of different micro-batches and may be computed as one, the
  /// communication of each hidden behind the other's products (DualPipe). They may also just run one after the other.
  bool merged = false;

  bool is_forward() const { return kind == Kind::forward; }
  /// True if a gradient is passed on to the stage before.
  bool is_backward() const { return kind == Kind::backward || kind == Kind::backward_input; }
  bool operator==(const Action&) const = default;
};

/// Passes of each micro-batch: forward and backward, or forward alone.
enum class Phase : uint8_t { training, evaluation };

struct Schedule {
  PipelineKind kind;
  StageMap stages;
  int micro_batches;
  std::vector<std::vector<Action>> ranks;  // what each does, in order
  Phase phase = Phase::training;
};

/// Any number of micro-batches is legal. Some papers' schedules need more of them (dualpipe_v: twice the ranks, zb_v:
/// one less than that) or a multiple of the ranks (interleaved). With other numbers the micro-batches that do not exist
/// are left out of the paper's schedule; the others keep their order, with more idle time. Overlap::micro_batches: a
/// list whose merged pairs are meant to be done as one. Throws Error(usage) for sizes below one, and for pairs of a
/// kind that has none.
Schedule make_schedule(const PipelineConfig& config, int ranks, int micro_batches);

/// An evaluation's part of a schedule: its forwards, none of them merged.
Schedule forwards_of(Schedule schedule);

/// "F0.3": kind, chunk, micro-batch. A merged forward and what follows it are joined by '+'.
std::string to_string(const Action& action);
std::string to_string(std::span<const Action> actions);
/// One line a rank.
std::string to_string(const Schedule& schedule);

}  // namespace hexad::pp
