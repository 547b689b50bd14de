// Marks of a queue. One mark is shared as long as nothing is appended. Other queues can wait for it.
#include "framework/device/cuda/queue.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/support/cuda_double/stream.h"

namespace hexad::device::cuda {
namespace {

TEST(CudaQueue, TheEndIsOneMarkWhileNothingIsAppended) {
  const auto queue = std::make_shared<Queue>(0, 0);
  static_cast<void>(queue->handle());
  const auto first = queue->record();
  EXPECT_EQ(queue->record(), first);
  cuda_double::enqueue(queue->handle(), [] {});
  EXPECT_NE(queue->record(), first);
}

TEST(CudaQueue, WaitingForAnotherQueueIsAnAppend) {
  const auto queue = std::make_shared<Queue>(0, 0), other = std::make_shared<Queue>(0, 0);
  static_cast<void>(queue->handle());
  const auto before = queue->record();
  std::promise<void> gate;
  cuda_double::enqueue(other->handle(), [f = gate.get_future().share()] { f.wait(); });
  queue->wait(*other->record());
  const auto after = queue->record();
  before->wait();
  EXPECT_FALSE(after->passed());
  gate.set_value();
  after->wait();
  EXPECT_TRUE(after->passed());
}

// Another thread may hold the handle and be about to append work.
TEST(CudaQueue, WithSeveralUsersEveryMarkIsNew) {
  const auto queue = std::make_shared<Queue>(0, 0);
  static_cast<void>(queue->handle());
  std::thread([&] { static_cast<void>(queue->handle()); }).join();
  const auto first = queue->record();
  EXPECT_NE(queue->record(), first);
}

TEST(CudaQueue, TimedMarksKnowWhenTheyWerePassed) {
  const auto queue = std::make_shared<Queue>(0, 0);
  const auto begin = queue->record_timed();
  cuda_double::enqueue(queue->handle(), [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  const auto end = queue->record_timed();
  end->wait();
  EXPECT_GE(end->passed_at() - begin->passed_at(), 0.019);
}

}  // namespace
}  // namespace hexad::device::cuda
