// Threads that use a card before they choose one, and threads that use objects of another card.
#include "framework/device/cuda/thread_card.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <thread>

#include "framework/device/context.h"
#include "framework/device/cuda/driver.h"
#include "framework/device/cuda/pinned_memory.h"
#include "framework/device/cuda/plain_memory.h"
#include "framework/device/cuda/queue.h"
#include "tests/support/cuda_double/device.h"

namespace hexad::device::cuda {
namespace {

int card_of_this_thread() {
  int ordinal = -1;
  EXPECT_EQ(cudaGetDevice(&ordinal), cudaSuccess);
  return ordinal;
}

struct ThreadCard : ::testing::Test {
  ~ThreadCard() override { EXPECT_EQ(cuda_double::take_calls_without_device(), 0); }
  // Runs `work` on a new thread.
  template <class F>
  static void elsewhere(const F& work) {
    std::thread(work).join();
  }
};

TEST_F(ThreadCard, IsTheCardOfTheFirstUsedQueue) {
  const auto queue = std::make_shared<Queue>(3, 0);
  const auto mark = queue->record();
  const auto timed = queue->record_timed();
  timed->wait();
  const auto expect_threes = [](const auto& work) {
    elsewhere([&] {
      work();
      EXPECT_EQ(card_of_this_thread(), 3);
    });
  };
  expect_threes([&] { static_cast<void>(mark->passed()); });
  expect_threes([&] { mark->wait(); });
  expect_threes([&] { static_cast<void>(timed->passed_at()); });
  expect_threes([&] { queue->record()->wait(); });
  expect_threes([&] { queue->record_timed()->wait(); });
  expect_threes([&] { static_cast<void>(queue->handle()); });
  expect_threes([&] { queue->synchronize(); });
}

TEST_F(ThreadCard, RemainsTheSameWhenTheThreadUsesObjectsOfAnotherCard) {
  const auto queue = std::make_shared<Queue>(2, 0);
  const auto pinned = std::make_shared<PinnedMemory>(2, 0);
  const auto plain = std::make_shared<PlainMemory>(2);
  elsewhere([&] {
    use_card(1);
    queue->record()->wait();  // makes an event of card 2
    EXPECT_EQ(card_of_this_thread(), 1);
    queue->record_timed()->wait();
    EXPECT_EQ(card_of_this_thread(), 1);
    pinned->free(pinned->allocate(4096), 4096);
    EXPECT_EQ(card_of_this_thread(), 1);
    plain->free(plain->allocate(4096), 4096);
    EXPECT_EQ(card_of_this_thread(), 1);
  });
}

TEST_F(ThreadCard, IsTheCardOfTheFirstMappedPages) {
  const Driver driver(3);
  CUdeviceptr where = 0;
  Driver::Page page{};
  const auto expect_three = [](const auto& work) {
    elsewhere([&] {
      work();
      EXPECT_EQ(card_of_this_thread(), 3);
    });
  };
  expect_three([&] { where = driver.reserve(driver.page()); });
  expect_three([&] { EXPECT_TRUE(driver.map(where, driver.page(), page)); });
  expect_three([&] { driver.unmap(where, driver.page(), page); });
  expect_three([&] { EXPECT_TRUE(driver.map(where, driver.page(), page)); });
  expect_three([&] { driver.drop(where, driver.page(), page); });
  expect_three([&] { driver.give_back_addresses(where, driver.page()); });
}

TEST_F(ThreadCard, IsTheContextsCardOnItsHostStream) {
  DeviceContext context({.kind = DeviceKind::cuda, .place = 3});
  context.host_stream().wait(context.compute().record());
  int card = -1;
  context.host_stream().run([&] { card = card_of_this_thread(); });
  context.host_stream().synchronize();
  EXPECT_EQ(card, 3);
}

TEST_F(ThreadCard, IsChosenWhenAnotherThreadFreesPinnedMemory) {
  DeviceContext context({.kind = DeviceKind::cuda, .place = 3});
  std::shared_ptr<std::byte> buffer = context.host_buffer(4096);
  context.fill(context.compute(), buffer.get(), 0, 4096);
  elsewhere([&] {
    buffer.reset();
    EXPECT_EQ(card_of_this_thread(), 3);
  });
}

}  // namespace
}  // namespace hexad::device::cuda
