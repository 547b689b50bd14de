// Loops on several threads: each item is computed exactly once, and threads use cores only while there is work.
#include "framework/kernels/cpu/parallel.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace hexad::kernels::cpu {
namespace {

class Threads {
 public:
  explicit Threads(int threads) { set_thread_count(threads); }
  ~Threads() { set_thread_count(before_); }

 private:
  int before_ = thread_count();
};

// Restricts the calling thread, and the threads that it starts, to one core, as a launcher may do.
class OneCore {
 public:
  OneCore() {
    sched_getaffinity(0, sizeof before_, &before_);
    int core = 0;
    while (!CPU_ISSET(core, &before_)) ++core;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  ~OneCore() { sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_{};
};

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

using Pieces = std::set<std::pair<int64_t, int64_t>>;

Pieces pieces_of(int64_t count, int64_t grain) {
  Pieces pieces;
  std::mutex mutex;
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    std::lock_guard lock(mutex);
    EXPECT_TRUE(pieces.emplace(begin, end).second);
  });
  return pieces;
}

TEST(Parallel, PiecesDependOnlyOnTheCounts) {
  const Threads three(3);
  EXPECT_EQ(pieces_of(10, 1), (Pieces{{0, 3}, {3, 6}, {6, 10}}));
  EXPECT_EQ(pieces_of(10, 4), (Pieces{{0, 5}, {5, 10}}));
  EXPECT_EQ(pieces_of(2, 1), (Pieces{{0, 1}, {1, 2}}));
  EXPECT_EQ(pieces_of(10, 8), (Pieces{{0, 10}}));
  EXPECT_EQ(pieces_of(0, 1), Pieces{});
}

TEST(Parallel, EveryItemIsComputedOnceAndSeenByTheCaller) {
  for (int threads : {2, 3, 8}) {
    const Threads many(threads);
    std::vector<int> times(1000);
    for (int round = 1; round <= 300; ++round) {
      parallel_for(1000, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++times[i];
      });
      ASSERT_EQ(std::count(times.begin(), times.end(), round), 1000) << threads << " threads, round " << round;
    }
  }
}

TEST(Parallel, SmallWorkRunsOnTheCallingThread) {
  const Threads two(2);
  const auto caller = std::this_thread::get_id();
  parallel_for(1000, 501, [&](int64_t, int64_t) { EXPECT_EQ(std::this_thread::get_id(), caller); });
}

TEST(Parallel, LoopInsideALoopRunsOnOneThread) {
  const Threads two(2);
  parallel_for(2, 1, [](int64_t, int64_t) {
    EXPECT_EQ(thread_count(), 1);
    EXPECT_EQ(pieces_of(10, 1), (Pieces{{0, 10}}));
  });
  EXPECT_EQ(thread_count(), 2);
}

TEST(Parallel, NumberOfThreadsMayChange) {
  for (int threads : {2, 4, 1, 3}) {
    const Threads some(threads);
    EXPECT_EQ(pieces_of(100, 1).size(), static_cast<size_t>(threads));
  }
}

TEST(Parallel, RankThreadsHaveSeparateHelpers) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.emplace_back([] {
      set_thread_count(3);
      for (int round = 0; round < 100; ++round) EXPECT_EQ(pieces_of(30, 1), (Pieces{{0, 10}, {10, 20}, {20, 30}}));
    });
  for (std::thread& rank : ranks) rank.join();
}

// Measures processor seconds, not clock time, so that other processes do not count.
TEST(Parallel, LoopsOnBusyCoresCostLittleMoreThanTheirWork) {
  const OneCore one;
  std::thread([] {  // helpers started here inherit the core
    set_thread_count(2);
    const double before = cpu_seconds();
    for (int round = 0; round < 1000; ++round) parallel_for(2, 1, [](int64_t, int64_t) {});
    EXPECT_LT(cpu_seconds() - before, 1);
  })
      .join();
}

TEST(Parallel, HelpersSleepWhileTheirThreadHasOtherWork) {
  const Threads four(4);
  double spent = 0;
  for (int round = 0; round < 20; ++round) {
    parallel_for(4, 1, [](int64_t, int64_t) {});
    const double before = cpu_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    spent += cpu_seconds() - before;
  }
  EXPECT_LT(spent, 0.04);  // three helpers that did not sleep would use 0.2 s each
}

// A signal that a helper received would not interrupt the system call in which the rank's thread waits.
TEST(Parallel, HelpersTakeNoSignals) {
  const Threads two(2);
  const auto caller = std::this_thread::get_id();
  int looked = 0;
  std::mutex mutex;
  while (looked < 1)  // repeats until a helper has taken an item
    parallel_for(2, 1, [&](int64_t, int64_t) {
      if (std::this_thread::get_id() == caller) return std::this_thread::sleep_for(std::chrono::milliseconds(1));
      sigset_t blocked;
      pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
      std::lock_guard lock(mutex);
      EXPECT_TRUE(sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGUSR1) && !sigismember(&blocked, SIGSEGV));
      ++looked;
    });
}

}  // namespace
}  // namespace hexad::kernels::cpu
