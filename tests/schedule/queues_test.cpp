// Job queues, compared with hand counts.
#include "framework/schedule/queues.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hexad::schedule {
namespace {

std::pair<double, double> span(const JobTimes& t, size_t job) { return {t.jobs[job].begin, t.jobs[job].end}; }

TEST(Queues, NoJobsTakeNoTime) {
  const JobTimes t = run_jobs({}, {.sets = 1});
  EXPECT_TRUE(t.jobs.empty() && t.stuck.empty());
}

TEST(Queues, QueueDoesItsJobsInOrderAndOneAtATime) {
  const std::vector<Job> jobs{{0, 2}, {0, 0}, {0, 3}};
  const JobTimes t = run_jobs(jobs, {.sets = 1});
  EXPECT_EQ(span(t, 0), std::pair(0.0, 2.0));
  EXPECT_EQ(span(t, 1), std::pair(2.0, 2.0));
  EXPECT_EQ(span(t, 2), std::pair(2.0, 5.0));
}

TEST(Queues, JobWaitsForJobsOfOtherQueues) {
  const std::vector<Job> jobs{{0, 4}, {1, 1, {0}}, {0, 1, {1}}};
  const JobTimes t = run_jobs(jobs, {.sets = 2});
  EXPECT_EQ(span(t, 1), std::pair(4.0, 5.0));
  EXPECT_EQ(span(t, 2), std::pair(5.0, 6.0));
}

TEST(Queues, MembersOfACollectiveAreDoneTogetherAndHoldTheirQueues) {
  const std::vector<Job> jobs{{0, 1, {}, 0}, {0, 1}, {1, 5}, {1, 2, {}, 0}};
  const JobTimes t = run_jobs(jobs, {.sets = 2});
  EXPECT_EQ(span(t, 0), std::pair(0.0, 7.0));
  EXPECT_EQ(span(t, 1), std::pair(7.0, 8.0));
}

// Queues 0 and 1 run at half their speed while both work. A queue that waits for its collective does not run.
TEST(Queues, QueuesOfASetSlowEachOtherWhileBothWork) {
  const auto halved = [](int, size_t others) { return others ? 0.5 : 1.0; };
  const std::vector<Job> jobs{{0, 2}, {1, 3}, {2, 5}};
  const JobTimes t = run_jobs(jobs, {.sets = 2, .beside = 2, .speed = halved});
  EXPECT_EQ(t.jobs[0].end, 4);
  EXPECT_EQ(t.jobs[1].end, 5) << "2 of 3 seconds run at half speed, the last at full speed";
  EXPECT_EQ(t.jobs[2].end, 5) << "a queue of another set is not slowed down";
  const std::vector<Job> waits{{0, 1, {}, 0}, {1, 6}, {2, 9, {}, 0}};
  EXPECT_EQ(run_jobs(waits, {.sets = 2, .beside = 2, .speed = halved}).jobs[1].end, 7);
}

TEST(Queues, LastOf64QueuesSlowsTheFirst) {
  const auto halved = [](int lane, size_t others) { return lane == 0 && others == size_t{1} << 63 ? 0.5 : 1.0; };
  const std::vector<Job> jobs{{64, 4}, {127, 1}};
  const JobTimes t = run_jobs(jobs, {.sets = 2, .beside = 64, .speed = halved});
  EXPECT_EQ(t.jobs[0].end, 4.5);
  EXPECT_EQ(t.jobs[1].end, 1);
}

// Each set needs a core while it works. The sets of node 0 share one core.
TEST(Queues, SetsOfANodeSlowEachOtherWhileTheyWork) {
  const CoreSharing sharing{.node = {0, 0, CoreSharing::no_node},
                            .needed = [](size_t active) { return active ? 1.0 : 0.0; },
                            .speed = [](int, size_t, double mean) { return std::min(1.0, 1 / (2 * mean)); }};
  const std::vector<Job> jobs{{0, 2}, {1, 3}, {2, 6}};
  const JobTimes t = run_jobs(jobs, {.sets = 3, .sharing = sharing});
  EXPECT_EQ(t.jobs[0].end, 4);
  EXPECT_EQ(t.jobs[1].end, 5);
  EXPECT_EQ(t.jobs[2].end, 6) << "a set without a node keeps its speed";
  EXPECT_THROW(run_jobs(jobs, {.sets = 4, .sharing = sharing}), std::logic_error);
}

// The burst is 3 s, and no job takes less than 1 s. The last job takes 2 s instead of 4 s, because the queue was idle
// for 2 s.
TEST(Queues, RestedQueueSavesItsBurstOnce) {
  const Burst burst{.full = 3, .least = 1};
  const std::vector<Job> jobs{{0, 3, {}, Job::alone, burst},  // saves 2 s of 3 s
                              {0, 3, {}, Job::alone, burst},  // saves the last second of the burst
                              {0, 2, {}, Job::alone, burst},  // saves nothing
                              {1, 7},
                              {0, 4, {3}, Job::alone, burst}};
  const JobTimes t = run_jobs(jobs, {.sets = 2});
  EXPECT_EQ(t.jobs[0].end, 1);
  EXPECT_EQ(t.jobs[1].end, 3);
  EXPECT_EQ(t.jobs[2].end, 5);
  EXPECT_EQ(span(t, 4), std::pair(7.0, 9.0));
}

TEST(Queues, LongRestSavesNoMoreThanTheBurst) {
  const Burst burst{.full = 3, .least = 1};
  const std::vector<Job> jobs{{0, 3, {}, Job::alone, burst}, {1, 100}, {0, 9, {1}, Job::alone, burst}};
  EXPECT_EQ(run_jobs(jobs, {.sets = 2}).jobs[2].end, 106);
}

TEST(Queues, RestBeginsWhenTheWorkOfACollectiveIsDone) {
  const Burst burst{.full = 2, .least = 0};
  const std::vector<Job> jobs{{0, 4, {}, 0, burst}, {1, 5, {}, 0}, {0, 4, {}, Job::alone, burst}};
  const JobTimes t = run_jobs(jobs, {.sets = 2});
  EXPECT_EQ(t.jobs[0].end, 5) << "its own work ends after 2 s";
  EXPECT_EQ(t.jobs[2].end, 7) << "3 s of rest save the whole burst";
}

TEST(Queues, JobWithoutAQueueTakesItsTimeAndSlowsNoQueue) {
  const auto halved = [](int, size_t others) { return others ? 0.5 : 1.0; };
  const std::vector<Job> jobs{{0, 2}, {Job::no_queue, 3, {0}}, {Job::no_queue, 1}, {2, 1, {1}}, {0, 4}};
  const JobTimes t = run_jobs(jobs, {.sets = 2, .beside = 2, .speed = halved});
  EXPECT_EQ(span(t, 1), std::pair(2.0, 5.0));
  EXPECT_EQ(span(t, 2), std::pair(0.0, 1.0)) << "jobs without a queue do not wait for each other";
  EXPECT_EQ(span(t, 3), std::pair(5.0, 6.0));
  EXPECT_EQ(span(t, 4), std::pair(2.0, 6.0));
}

TEST(Queues, SetsOfMoreThan64QueuesAreRefused) {
  EXPECT_THROW(run_jobs({}, {.sets = 1, .beside = 65}), std::logic_error);
}

TEST(Queues, EndlessJobsAreReported) {
  const std::vector<Job> jobs{{0, 1, {2}}, {0, 1}, {1, 1, {1}}, {2, 1}};
  const JobTimes t = run_jobs(jobs, {.sets = 3});
  EXPECT_EQ(t.stuck, (std::vector{0, 2}));
  EXPECT_EQ(t.jobs[3].end, 1);
  const std::vector<Job> itself{{0, 1, {0}}};
  EXPECT_EQ(run_jobs(itself, {.sets = 1}).stuck, std::vector{0});
}

TEST(Queues, JobOfAnUnknownQueueIsRefused) {
  const std::vector<Job> jobs{{2, 1}};
  EXPECT_THROW(run_jobs(jobs, {.sets = 2}), std::logic_error);
}

}  // namespace
}  // namespace hexad::schedule
