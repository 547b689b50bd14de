// Conversion of items on several threads, in order.
#include "framework/data/ordered_jobs.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "framework/base/error.h"

namespace hexad::data {
namespace {

using Jobs = OrderedJobs<int, int>;

// Returns the item. Waits before it returns a multiple of seven.
int slow_copy(int item) {
  if (item % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  return item;
}

TEST(OrderedJobs, KeepsTheOrderOfItemsForSeveralNumbersOfThreads) {
  for (const int threads : {1, 2, 5})
    for (const int64_t batch_bytes : {int64_t{1}, int64_t{10}, int64_t{100000}}) {
      Workers workers(threads);
      std::vector<int> found, wanted;
      Jobs jobs(workers, batch_bytes, slow_copy, [&](int item) { found.push_back(item); });
      for (int i = 0; i < 300; ++i) {
        wanted.push_back(i);
        jobs.add(int{i}, 1);
      }
      jobs.finish();
      EXPECT_EQ(found, wanted);
    }
}

TEST(OrderedJobs, LargeItemsAreConvertedOneByOne) {
  Workers workers(4);
  int added = 0, max_behind = 0;
  Jobs jobs(workers, 1, slow_copy, [&](int item) { max_behind = std::max(max_behind, added - item); });
  for (; added < 20; ++added) jobs.add(int{added}, int64_t{200} << 20);
  jobs.finish();
  EXPECT_EQ(max_behind, 1) << "an item waits until the item before it has been taken";
}

TEST(OrderedJobs, ItemsWithoutBytesFillBatches) {
  Workers workers(1);
  int taken = 0;
  Jobs jobs(workers, 100, slow_copy, [&](int) { ++taken; });
  for (int i = 0; i < 10'000; ++i) jobs.add(int{i}, 0);
  EXPECT_GT(taken, 9'000) << "only a few items may wait in memory";
  jobs.finish();
  EXPECT_EQ(taken, 10'000);
}

TEST(OrderedJobs, PassesErrorsOfThreadsOn) {
  const auto fails = [](int item) -> int {
    if (item == 50) base::fail(base::ExitCode::data, "item 50");
    return item;
  };
  Workers workers(3);
  int taken = 0;
  Jobs jobs(workers, 1, fails, [&](int) { ++taken; });
  const auto run = [&] {
    for (int i = 0; i < 100; ++i) jobs.add(int{i}, 1);
    jobs.finish();
  };
  EXPECT_THROW(run(), base::Error);
  EXPECT_EQ(taken, 50) << "all items before the failing item arrive";
}

TEST(OrderedJobs, SeveralQueuesShareTheThreads) {
  Workers workers(2);
  std::vector<int> found;
  Jobs second(workers, 3, slow_copy, [&](int item) { found.push_back(item); });
  Jobs first(workers, 2, slow_copy, [&](int item) { second.add(int{item}, 1); });
  for (int i = 0; i < 100; ++i) first.add(int{i}, 1);
  first.finish();
  second.finish();
  ASSERT_EQ(found.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(found[static_cast<size_t>(i)], i);
}

TEST(OrderedJobs, DestructorDropsResultsThatWereNotTaken) {
  Workers workers(2);
  int taken = 0;
  {
    Jobs jobs(workers, 1, slow_copy, [&](int) { ++taken; });
    for (int i = 0; i < 4; ++i) jobs.add(int{i}, 1);
  }
  EXPECT_EQ(taken, 0);
}

TEST(Workers, RunCallsEveryIndexOnceAndRethrowsTheFirstError) {
  Workers workers(3);
  std::vector<int> calls(50, 0);
  workers.run(calls.size(), [&](size_t i) { ++calls[i]; });
  EXPECT_EQ(calls, std::vector<int>(50, 1));
  const auto fails = [&](size_t i) {
    ++calls[i];
    if (i == 7 || i == 30) base::fail(base::ExitCode::data, "index ", i);
  };
  try {
    workers.run(calls.size(), fails);
    ADD_FAILURE() << "no Error was thrown; expected the error of index 7";
  } catch (const base::Error& error) {
    EXPECT_EQ(std::string(error.what()), "index 7");
  }
  EXPECT_EQ(calls, std::vector<int>(50, 2)) << "calls after a failed call are still made";
}

// Sets the default stack size of new threads. The destructor restores it.
class StackSize {
 public:
  explicit StackSize(size_t bytes) {
    EXPECT_EQ(::pthread_getattr_default_np(&before_), 0);
    pthread_attr_t attributes;
    EXPECT_EQ(::pthread_getattr_default_np(&attributes), 0);
    EXPECT_EQ(::pthread_attr_setstacksize(&attributes, bytes), 0);
    EXPECT_EQ(::pthread_setattr_default_np(&attributes), 0);
    ::pthread_attr_destroy(&attributes);
  }
  ~StackSize() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }
  StackSize(const StackSize&) = delete;
  StackSize& operator=(const StackSize&) = delete;

 private:
  pthread_attr_t before_;
};

TEST(Workers, ThreadsThatCannotBeStartedAreAnError) {
  const StackSize beyond_the_address_space(size_t{1} << 47);
  try {
    const Workers workers(3);
    ADD_FAILURE() << "no Error was thrown; expected an error about threads";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::resource);
    EXPECT_NE(std::string(error.what()).find("only 0 of 3 threads could be started"), std::string::npos);
  }
}

}  // namespace
}  // namespace hexad::data
