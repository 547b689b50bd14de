// Queues that run jobs in order: the discrete-event simulation behind every prediction of a schedule.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "framework/schedule/interval.h"

namespace hexad::schedule {

/// One piece of work. It begins when all earlier jobs of its queue and all jobs in `after` are done.
struct Job {
  static constexpr int alone = -1;
  static constexpr int no_queue = -1;

  int queue;                 // no_queue: waits for `after` only, and has no seconds
  double seconds;            // seconds of work at full speed
  std::vector<int> after{};  // jobs, by index
  int collective = alone;    // jobs with the same number are done once all of them have done their work
};

/// Queues in sets of `beside` neighbours, such as the lanes of a rank: [0, beside), [beside, 2 beside) and so on.
/// `speed` (1: full) is the speed of queue `lane` of a set while the queues in the bit set `others` are active. If
/// null, all queues always run at full speed.
struct QueueSets {
  int sets;
  int beside = 1;
  std::function<double(int lane, size_t others)> speed{};
};

struct JobTimes {
  std::vector<Interval> jobs;  // seconds; unset for jobs that never end and for their successors
  std::vector<int> stuck;      // the first job that never ends, for each queue that has one; empty: all jobs end
};

/// Runs the jobs of each queue in the order of `jobs`, one at a time. A job that waits for other jobs of its collective
/// occupies its queue but slows no other queue. Events are sorted by time, so n jobs take about n log n steps.
JobTimes run_jobs(std::span<const Job> jobs, const QueueSets& queues);

}  // namespace hexad::schedule
