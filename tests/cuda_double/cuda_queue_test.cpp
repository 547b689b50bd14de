// Tests marks in a queue. Other queues can wait for a mark. record() returns the previous mark again under two
// conditions: no work was appended since this mark, and no thread has a handle of the queue.
#include "framework/device/cuda/queue.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "framework/device/context.h"
#include "framework/device/cuda/cuda_stream.h"
#include "tests/support/cuda_double/append.h"
#include "tests/support/cuda_double/host_waits.h"

namespace hexad::device::cuda {
namespace {

TEST(CudaQueue, EndIsOneMarkUntilWorkIsAppended) {
  const auto queue = std::make_shared<Queue>(0, 0);
  cuda_double::append(*queue, [] {});
  const auto first = queue->record();
  EXPECT_EQ(queue->record(), first);
  cuda_double::append(*queue, [] {});
  EXPECT_NE(queue->record(), first);
}

TEST(CudaQueue, EndIsATimedMarkUntilWorkIsAppended) {
  const auto queue = std::make_shared<Queue>(0, 0);
  const auto timed = queue->record_timed();
  EXPECT_EQ(queue->record(), timed);
  EXPECT_NE(queue->record_timed(), timed);
  cuda_double::append(*queue, [] {});
  EXPECT_FALSE(queue->record()->timed());
}

TEST(CudaQueue, WaitingForAnotherQueueIsAnAppend) {
  const auto queue = std::make_shared<Queue>(0, 0), other = std::make_shared<Queue>(0, 0);
  const auto before = queue->record();
  std::promise<void> gate;
  cuda_double::append(*other, [f = gate.get_future().share()] { f.wait(); });
  queue->wait(*other->record());
  const auto after = queue->record();
  before->wait();
  EXPECT_FALSE(after->passed());
  gate.set_value();
  after->wait();
  EXPECT_TRUE(after->passed());
}

TEST(CudaQueue, MarkIsNotTheEndIfItsLaunchesMayContinue) {
  const auto queue = std::make_shared<Queue>(0, 0);
  std::promise<void> gate;
  std::shared_ptr<const DeviceMark> early, end;
  {
    const auto handle = queue->handle();
    early = queue->record();
    cuda_double::enqueue(handle.get(), [f = gate.get_future().share()] { f.wait(); });
    end = queue->record();
  }
  early->wait();
  EXPECT_FALSE(end->passed());
  EXPECT_FALSE(queue->record()->passed());
  gate.set_value();
  end->wait();
}

// The other thread may append work after this thread's handle has ended.
TEST(CudaQueue, MarkIsNotTheEndWhileAnotherThreadHasAHandle) {
  const auto queue = std::make_shared<Queue>(0, 0);
  std::promise<void> made, go_on;
  std::thread other([&] {
    const auto handle = queue->handle();
    made.set_value();
    go_on.get_future().wait();
  });
  made.get_future().wait();
  cuda_double::append(*queue, [] {});
  const auto first = queue->record();
  EXPECT_NE(queue->record(), first);
  go_on.set_value();
  other.join();
  const auto last = queue->record();
  EXPECT_EQ(queue->record(), last);
}

TEST(CudaQueue, TimedMarksRecordTheirTimes) {
  const auto queue = std::make_shared<Queue>(0, 0);
  const auto begin = queue->record_timed();
  cuda_double::append(*queue, [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  const auto end = queue->record_timed();
  end->wait();
  EXPECT_GE(end->passed_at() - begin->passed_at(), 0.019);
}

TEST(CudaQueue, TimedMarksDoNotMakeTheHostWaitUntilOneIsRead) {
  const auto clock = std::make_shared<CardClock>(0);
  const auto busy = std::make_shared<Queue>(0, 0, clock), idle = std::make_shared<Queue>(0, 0, clock);
  std::promise<void> gate;
  cuda_double::append(*busy, [f = gate.get_future().share()] { f.wait(); });
  static_cast<void>(cuda_double::take_host_waits());
  const auto late = busy->record_timed(), early = idle->record_timed();
  EXPECT_TRUE(cuda_double::take_host_waits().empty());
  early->wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  gate.set_value();
  late->wait();
  static_cast<void>(cuda_double::take_host_waits());
  EXPECT_GE(late->passed_at() - early->passed_at(), 0.019) << "a mark before the clock's reference has a wrong time";
  const std::map<std::string, int64_t> once{{"unnamed cudaEventSynchronize", 1}};
  EXPECT_EQ(cuda_double::take_host_waits(), once);
}

TEST(CudaQueue, QueueForUpdatesHasALowerPriorityThanAllLanes) {
  DeviceContext plain({.kind = DeviceKind::cuda}), context({.kind = DeviceKind::cuda, .update_queue = true});
  EXPECT_EQ(&plain.updates(), &plain.compute()) << "no queue for updates was requested";
  for (const Lane lane : {Lane::inter, Lane::intra, Lane::copy, Lane::compute})
    EXPECT_LT(cuda_stream(context.stream(lane)).priority(), cuda_stream(context.updates()).priority())
        << name_of(lane) << ": lower numbers come first";
}

TEST(CudaQueue, OnlyTimedMarksHaveATime) {
  const auto queue = std::make_shared<Queue>(0, 0);
  EXPECT_FALSE(queue->record()->timed());
  EXPECT_TRUE(queue->record_timed()->timed());
}

}  // namespace
}  // namespace hexad::device::cuda
