// Prediction of the time of a schedule, by the simulator of framework/schedule and by the formulas of papers.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "framework/schedule/interval.h"
#include "parallel/pp/schedule.h"

namespace hexad::pp {

/// Seconds that one virtual stage needs for one micro-batch.
struct StageTimes {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
};

struct PriceOptions {
  /// Duration of a message between two ranks, in seconds. A link carries one message at a time in each direction. Ranks
  /// do not wait for their sends.
  double send = 0;
  /// True if a merged pair runs as one action. This action begins when both inputs have arrived, and delivers both
  /// results when it ends. False: the two actions run one after the other.
  bool merge = false;
};

struct Price {
  std::vector<std::vector<schedule::Interval>> spans;  // interval of each action in seconds, by rank
  std::vector<double> busy;                            // seconds for which each rank computes
  double step = 0;                                     // seconds of the whole step

  /// Returns the fraction of the step during which `rank` is idle.
  double bubble(int rank) const { return (step - busy[rank]) / step; }
  /// Returns the mean of bubble(rank) over all ranks.
  double bubble() const;
};

/// Predicts the times of all actions. `times` has one element for each virtual stage. An action begins once the
/// previous action of the rank is done and the message that it needs has arrived. Throws std::logic_error, which names
/// the action at which a rank waits, if the schedule never ends.
Price price(const Schedule& schedule, std::span<const StageTimes> times, const PriceOptions& options = {});
/// Like price() above, for virtual stages that all take `times`.
Price price(const Schedule& schedule, const StageTimes& times, const PriceOptions& options = {});

/// Returns the idle seconds of a rank in a step; nullopt if no formula applies. Assumes that every virtual stage takes
/// `times`, and that messages take no time. F, I and W are the times of forward, input gradient and weight gradient of
/// a virtual stage. There are p ranks and m micro-batches.
///   kind                idle seconds                         valid for
///   gpipe, 1f1b         (p - 1) * (F + I + W)                any m; also for merged pairs
///   interleaved         (p - 1) * (F + I + W)                m a multiple of p
///   zb_h1               (p - 1) * max(F + max(I - W, 0), I)  m >= p
///   zb_v                (p - 1) * I                          F <= I, W <= I <= 2 * W, m >= 2 * p
///   dualpipe_v          (p - 1) * (F + max(I - W, 0))        I <= F <= I + W, m >= 2 * p
///   dualpipe_v, merged  (p - 1) * (F + 2 * I - W)            W <= I = F, m >= 2 * p
/// Sources:
/// - 1f1b, interleaved: Narayanan et al. 2021, sections 2.2.1 and 2.2.2
/// - zb_h1: Qi et al. 2023, table 2, with F + I - W for W <= I <= F + W
/// - dualpipe_v: DeepSeek 2025, with F&B + B - 3 * W, where B = I + W and F&B = F + B
std::optional<double> bubble_seconds(const Schedule& schedule, const StageTimes& times, bool merge = false);

}  // namespace hexad::pp
