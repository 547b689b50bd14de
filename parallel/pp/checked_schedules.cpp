#include "parallel/pp/checked_schedules.h"

#include <utility>

#include "parallel/pp/program_check.h"

namespace hexad::pp {

CheckedSchedule checked(Schedule schedule, bool merge, Freeing freeing) {
  check(schedule);
  Transfers points = transfers(schedule, merge, freeing);
  return {std::move(schedule), merge, std::move(points)};
}

const CheckedSchedule& CheckedSchedules::of(const PipelineConfig& config, int ranks, int micro_batches,
                                            Freeing freeing) {
  const Key key{config.kind, config.stages_a_rank(), config.overlap, ranks, micro_batches, freeing};
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  const bool merge = config.overlap == Overlap::micro_batches;
  return known_.emplace(key, checked(make_schedule(config, ranks, micro_batches), merge, freeing)).first->second;
}

}  // namespace hexad::pp
