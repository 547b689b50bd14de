// Discrete-event simulation of queues that run jobs in order. It predicts the times of task graphs, pipelines and
// steps.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "framework/schedule/interval.h"

namespace hexad::schedule {

/// Burst of a link. A queue that is idle for x seconds can save x seconds of its next jobs. Unused savings are limited
/// to `full` seconds. Savings never shorten a job to less than `least` seconds.
struct Burst {
  double full = 0;  // 0: idle time saves nothing
  double least = 0;
};

/// One unit of work. It begins when all earlier jobs of its queue and all jobs in `after` are done.
struct Job {
  static constexpr int alone = -1;
  static constexpr int no_queue = -1;

  int queue;                 // index of the queue; no_queue: the job waits only for `after`, works at full speed and
                             // slows no queue
  double seconds;            // seconds of work at full speed
  std::vector<int> after{};  // indices of the jobs that must end before this job begins
  int collective = alone;    // jobs with the same number end together, when all of them have done their work; alone:
                             // the job ends when it has done its own work
  Burst burst{};             // burst of the link that does the work; each queue begins with full savings
};

/// Sharing of each node's cores among sets of queues (QueueSets).
struct CoreSharing {
  static constexpr int no_node = -1;

  std::vector<int> node;                        // node of each set; no_node: the set shares no cores
  std::function<double(size_t active)> needed;  // cores that a set needs, by the bit set of its active queues
  /// Returns the factor that multiplies the speed of queue `lane` of a set. `active` is the bit set of the set's active
  /// queues. `mean` is the number of cores that the sets of the node need on average.
  std::function<double(int lane, size_t active, double mean)> speed;
};

/// Queues in sets, such as the lanes of each rank. A set consists of `beside` adjacent queues, at most 64: [0, beside),
/// [beside, 2 * beside) and so on. A queue is active while its current job has work left. speed(lane, others) is the
/// speed of queue `lane` of a set; 1 is full speed. `others` is the bit set of the other active queues of this set. If
/// `speed` is null, all speeds are 1. `sharing` multiplies these speeds by another factor.
struct QueueSets {
  int sets;
  int beside = 1;
  std::function<double(int lane, size_t others)> speed{};
  std::optional<CoreSharing> sharing{};  // none: sets do not slow each other
};

struct JobTimes {
  std::vector<Interval> jobs;  // interval of each job, in seconds; `end` is 0 for jobs that never end
  std::vector<int> stuck;      // first job that never ends, for each queue with such a job; empty if all jobs end
};

/// Simulates the jobs of each queue in the order of `jobs`, one at a time. A job that waits for other jobs of its
/// collective occupies its queue but does not slow other queues. The simulation of n jobs takes about n log n steps.
/// It takes more steps if sets share cores, because a change in one set may update all sets of its node.
/// Throws std::logic_error if
///   - a set has more than 64 queues;
///   - a queue is out of range;
///   - CoreSharing::node does not have one entry for each set.
JobTimes run_jobs(std::span<const Job> jobs, const QueueSets& queues);

}  // namespace hexad::schedule
