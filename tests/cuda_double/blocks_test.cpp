// Queues that use reused memory wait for the previous users of this memory, but for no other work.
#include "framework/device/cuda/device_blocks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "framework/base/error.h"
#include "tests/support/cuda_double/append.h"

namespace hexad::device::cuda {
namespace {

class CudaBlocks : public ::testing::Test {
 protected:
  static std::shared_ptr<Queue> queue() { return std::make_shared<Queue>(0, 0); }
  // Keeps a queue busy until open() is called.
  void block(Queue& q) {
    cuda_double::append(q, [f = gate_.get_future().share()] { f.wait(); });
  }
  void open() { gate_.set_value(); }

  Blocks blocks_;
  std::promise<void> gate_;
  char memory_[1024];
};

TEST_F(CudaBlocks, NextUserWaitsForThePreviousUser) {
  const auto first = queue(), second = queue();
  blocks_.add(memory_, 512, {});
  blocks_.touch(memory_ + 100, first);
  block(*first);
  Marks last = blocks_.remove(memory_);
  ASSERT_EQ(last.size(), 1u);
  blocks_.add(memory_, 512, std::move(last));
  std::atomic<bool> ran = false;
  blocks_.touch(memory_, second);
  cuda_double::append(*second, [&] { ran = true; });
  EXPECT_FALSE(second->record()->passed());
  EXPECT_FALSE(ran);
  open();
  second->synchronize();
  EXPECT_TRUE(ran);
}

// Freeing a block records a mark at the end of its users' queues. The mark must not count as the end of the queue if
// more work follows the mark.
TEST_F(CudaBlocks, NextUserWaitsForLaunchesAfterAMark) {
  const auto first = queue(), second = queue();
  blocks_.add(memory_, 512, {});
  blocks_.add(memory_ + 512, 512, {});
  blocks_.touch(memory_, first);
  blocks_.touch(memory_ + 512, first);
  {
    const auto handle = first->handle();
    const Marks other = blocks_.remove(memory_ + 512);
    cuda_double::enqueue(handle.get(), [f = gate_.get_future().share()] { f.wait(); });
    blocks_.add(memory_, 512, blocks_.remove(memory_));
  }
  blocks_.touch(memory_, second);
  EXPECT_FALSE(second->record()->passed());
  open();
  second->synchronize();
}

TEST_F(CudaBlocks, CompanionsAreDestroyedWhenTheUsersOfTheBlockAreDone) {
  const auto user = queue();
  blocks_.add(memory_, 512, {}, true);
  std::atomic<bool> used = false, too_early = false, ended = false;
  blocks_.accompany(memory_, std::shared_ptr<const void>(memory_, [&](const void*) {
                      too_early = !used;
                      ended = true;
                    }));
  blocks_.touch(memory_ + 511, user);
  cuda_double::append(*user, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    used = true;
  });
  blocks_.remove(memory_);
  EXPECT_TRUE(ended);
  EXPECT_FALSE(too_early);
}

TEST_F(CudaBlocks, QueueDoesNotWaitForUsersOfOtherBlocks) {
  const auto first = queue(), second = queue();
  blocks_.add(memory_, 512, {});
  blocks_.touch(memory_, first);
  block(*first);
  blocks_.add(memory_ + 512, 512, {});
  blocks_.touch(memory_ + 512, second);
  second->synchronize();  // hangs if the second queue waits for the first
  open();
  first->synchronize();
}

TEST_F(CudaBlocks, NextUserIgnoresWorkAfterTheBlockWasFreed) {
  const auto first = queue(), second = queue();
  blocks_.add(memory_, 512, {});
  blocks_.touch(memory_, first);
  Marks last = blocks_.remove(memory_);
  block(*first);
  blocks_.add(memory_, 512, std::move(last));
  blocks_.touch(memory_, second);
  second->synchronize();  // hangs if the second queue waits for the first
  open();
  first->synchronize();
}

TEST_F(CudaBlocks, NextUserIgnoresWorkAfterTheEndOfUse) {
  const auto first = queue(), second = queue();
  blocks_.add(memory_, 512, {});
  blocks_.touch(memory_, first);
  blocks_.end_use(memory_ + 100, first);
  block(*first);
  blocks_.add(memory_, 512, blocks_.remove(memory_));
  blocks_.touch(memory_, second);
  second->synchronize();  // hangs if the second queue waits for the first
  open();
  first->synchronize();
}

TEST_F(CudaBlocks, NextUserWaitsForAUseAfterTheEndOfUse) {
  const auto first = queue(), second = queue();
  blocks_.add(memory_, 512, {});
  blocks_.touch(memory_, first);
  blocks_.end_use(memory_, first);
  blocks_.touch(memory_, first);
  block(*first);
  blocks_.add(memory_, 512, blocks_.remove(memory_));
  blocks_.touch(memory_, second);
  EXPECT_FALSE(second->record()->passed());
  open();
  second->synchronize();
}

TEST_F(CudaBlocks, BlockWithoutUsersPassesItsFormerUsersOn) {
  const auto first = queue();
  blocks_.add(memory_, 512, {});
  blocks_.touch(memory_, first);
  const Marks last = blocks_.remove(memory_);
  blocks_.add(memory_, 512, last);
  EXPECT_EQ(blocks_.remove(memory_), last);
}

TEST_F(CudaBlocks, NewUserWaitsForAllFormerUsers) {
  const auto first = queue(), second = queue(), third = queue();
  blocks_.add(memory_, 512, {});
  blocks_.touch(memory_, first);
  blocks_.touch(memory_, second);
  block(*second);
  blocks_.add(memory_ + 512, 512, blocks_.remove(memory_));
  blocks_.touch(memory_ + 512, third);
  EXPECT_FALSE(third->record()->passed());
  open();
  third->synchronize();
}

TEST_F(CudaBlocks, LaunchTouchesBlocksMadeDuringIt) {
  const auto first = queue();
  {
    const Blocks::Launch launch(blocks_, first);
    blocks_.add(memory_, 512, {});
  }
  blocks_.add(memory_ + 512, 512, {});
  EXPECT_EQ(blocks_.remove(memory_).size(), 1u);
  EXPECT_TRUE(blocks_.remove(memory_ + 512).empty());
}

TEST_F(CudaBlocks, IgnoresTouchesOutsideOfBlocks) {
  const auto first = queue();
  blocks_.touch(nullptr, first);
  blocks_.add(memory_, 512, {});
  blocks_.touch(memory_ + 512, first);
  blocks_.end_use(memory_, first);
  blocks_.end_use(memory_ + 512, first);
  EXPECT_TRUE(blocks_.remove(memory_).empty());
  try {
    blocks_.remove(memory_);
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_EQ(std::string(e.what()), base::cat("[cuda] the unknown block ", static_cast<void*>(memory_),
                                               " was freed; expected the first address of a block in use"));
  }
}

}  // namespace
}  // namespace hexad::device::cuda
