// Schedules that are made and checked once, and then run in any number of steps.
#pragma once

#include <map>
#include <tuple>

#include "parallel/pp/schedule.h"
#include "parallel/pp/transfers.h"

namespace hexad::pp {

/// A schedule that check() accepts, and its transfers.
struct CheckedSchedule {
  Schedule schedule;
  bool merge;  // true if merged pairs run as one action
  Transfers transfers;
};

/// Checks a schedule and derives its transfers. Throws like check().
CheckedSchedule checked(Schedule schedule, bool merge, Freeing freeing = Freeing::early);

/// Checked schedules of training steps. Not thread-safe.
class CheckedSchedules {
 public:
  /// Returns make_schedule(config, ranks, micro_batches), whose pairs are merged if config.overlap is micro_batches.
  /// `freeing` is the rule by which sent tensors are freed (transfers.h). The first call with these values makes and
  /// checks the schedule, and throws like make_schedule() and check(). The reference is valid while this object exists.
  const CheckedSchedule& of(const PipelineConfig& config, int ranks, int micro_batches,
                            Freeing freeing = Freeing::early);

 private:
  // Kind, virtual stages, overlap, ranks, micro-batches, and the rule by which sent tensors are freed.
  using Key = std::tuple<PipelineKind, int, Overlap, int, int, Freeing>;
  std::map<Key, CheckedSchedule> known_;
};

}  // namespace hexad::pp
