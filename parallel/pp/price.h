// Predicts the time of a schedule by jobs for the simulator of framework/schedule. Also has the papers' formulas.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "framework/schedule/interval.h"
#include "parallel/pp/schedule.h"

namespace hexad::pp {

/// Seconds of one micro-batch in one virtual stage.
struct StageTimes {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
};

struct PriceOptions {
  /// Seconds of a message between two ranks. A link carries one message at a time in each direction; ranks continue
  /// meanwhile.
  double send = 0;
  /// True if a merged pair is one piece of work: it begins when both inputs have arrived and delivers both results at
  /// its end. Otherwise its two actions run one after the other.
  bool merge = false;
};

struct Price {
  std::vector<std::vector<schedule::Interval>> spans;  // by rank, like the schedule's actions
  std::vector<double> busy;                            // seconds by rank
  double step = 0;                                     // seconds

  /// Returns the share of the step in which `rank` is idle.
  double bubble(int rank) const { return (step - busy[rank]) / step; }
  /// Returns the mean bubble over the ranks.
  double bubble() const;
};

/// Predicts the times of all actions. `times` is indexed by virtual stage. Every action begins once the previous action
/// of its rank is done and its message has arrived. Throws std::logic_error if the schedule never ends; the error names
/// the message that each rank waits for.
Price price(const Schedule& schedule, std::span<const StageTimes> times, const PriceOptions& options = {});
/// Predicts the times if all virtual stages are alike.
Price price(const Schedule& schedule, const StageTimes& times, const PriceOptions& options = {});

/// Returns the idle seconds of a rank in a step with equal virtual stages of `times` and free messages; none if the
/// formula does not hold. F, I, W: forward, input gradient, weight gradient; p ranks, m micro-batches.
///   kind                idle seconds                       holds for
///   gpipe, 1f1b         (p - 1) (F + I + W)                any m; merged pairs, too
///   interleaved         (p - 1) (F + I + W)                m a multiple of p; its virtual stages are smaller
///   zb_h1               (p - 1) max(F + max(I - W, 0), I)  m >= p
///   zb_v                (p - 1) I                          F <= I, W <= I <= 2 W, m >= 2 p
///   dualpipe_v          (p - 1) (F + max(I - W, 0))        I <= F <= I + W, m >= 2 p
///   dualpipe_v, merged  (p - 1) (F + 2 I - W)              W <= I = F, m >= 2 p
/// Sources: Narayanan et al. 2021, sections 2.2.1 and 2.2.2 (1f1b, interleaved); Qi et al. 2023, table 2, which has
/// F + I - W for W <= I <= F + W (zb_h1); DeepSeek 2025, F&B + B - 3 W with F&B = F + B (dualpipe_v).
std::optional<double> bubble_seconds(const Schedule& schedule, const StageTimes& times, bool merge = false);

}  // namespace hexad::pp
