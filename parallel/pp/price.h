// How long a schedule takes: a pure simulation, and the papers' formulas beside it.
#pragma once

#include <span>
#include <vector>

#include "parallel/pp/schedule.h"

namespace hexad::pp {

/// Seconds of one micro-batch in one virtual stage.
struct StageTimes {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
};

struct PriceOptions {
  /// Seconds of a message between two ranks. A link carries one at a time in each direction; ranks go on meanwhile.
  double send = 0;
  /// A merged pair is one piece of work: it begins when both inputs are there and hands on both results at its end.
  /// Otherwise its two actions are done one after the other, as the runner does.
  bool merge = false;
};

struct Price {
  struct Span {
    double begin, end;
  };
  std::vector<std::vector<Span>> spans;  // by rank, as the schedule's actions
  std::vector<double> busy;              // seconds by rank
  double step = 0;                       // seconds

  /// Share of the step in which `rank` is idle.
  double bubble(int rank) const { return (step - busy[static_cast<size_t>(rank)]) / step; }
  /// Mean over the ranks.
  double bubble() const;
};

/// `times`: by virtual stage. Every action begins as soon as the one before it on its rank is done and what it needs
/// has arrived. Throws std::logic_error, saying what each rank waits for, when the schedule never ends.
Price price(const Schedule& schedule, std::span<const StageTimes> times, const PriceOptions& options = {});
/// All virtual stages alike.
Price price(const Schedule& schedule, const StageTimes& times, const PriceOptions& options = {});

/// Idle seconds of a rank in a step with equal virtual stages of `times` and free messages (F, I, W: forward, input
/// gradient, weight gradient; p ranks):
///   gpipe, 1f1b         (p - 1) (F + I + W)            Narayanan et al. 2021, section 2.2.1
///   interleaved         (p - 1) (F + I + W)            section 2.2.2; stages are smaller by the number of chunks.
///                                                      Micro-batches a multiple of p.
///   zb_h1               (p - 1) max(F + max(I - W, 0), I)  Qi et al. 2023, table 2: F + I - W, for W <= I <= F + W
///   zb_v                (p - 1) I                      where F <= I and W <= I <= 2 W; at least 2 p - 1 micro-batches
///   dualpipe_v          (p - 1) (F + max(I - W, 0))    where I <= F <= I + W; at least 2 p micro-batches
///   dualpipe_v, merged  (p - 1) (F + 2 I - W)          DeepSeek's (F&B + B - 3 W), where W <= I = F and F&B = F + B
double bubble_seconds(PipelineKind kind, int ranks, const StageTimes& times, bool merge = false);

}  // namespace hexad::pp
