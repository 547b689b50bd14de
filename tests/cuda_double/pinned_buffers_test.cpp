// Page-locked buffers, which are reused after their copies and whose total size has a limit.
#include "framework/device/cuda/reused_buffers.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "framework/base/error.h"
#include "framework/device/cuda/pinned_allocator.h"
#include "tests/support/cuda_double/append.h"
#include "tests/support/cuda_double/memory.h"

namespace hexad::device::cuda {
namespace {

struct CudaPinned : ::testing::Test {
  static constexpr int64_t limit = 3 * 4096;
  const std::shared_ptr<Blocks> blocks = std::make_shared<Blocks>();
  const std::shared_ptr<PinnedMemory> memory = std::make_shared<PinnedMemory>(0, limit);
  const std::shared_ptr<ReusedBuffers> buffers = std::make_shared<ReusedBuffers>(blocks, memory);
};

TEST_F(CudaPinned, BufferIsNotUsedAgainBeforeItsCopy) {
  const auto queue = std::make_shared<Queue>(0, 0);
  std::promise<void> gate;
  {  // allocated before the queue is busy, because an allocation waits for the whole device
    const auto one = buffers->take(100), two = buffers->take(100);
  }
  auto buffer = buffers->take(100);
  const std::byte* first = buffer.get();
  blocks->touch(first, queue);
  cuda_double::append(*queue, [f = gate.get_future().share()] { f.wait(); });
  buffer.reset();
  EXPECT_NE(buffers->take(100).get(), first);
  gate.set_value();
  queue->synchronize();
  const auto again = buffers->take(100), other = buffers->take(100);
  EXPECT_TRUE(again.get() == first || other.get() == first);
  EXPECT_EQ(memory->held(), 2 * 4096);
}

TEST_F(CudaPinned, CachedBuffersAreFreedAtTheLimit) {
  for (int i = 0; i < 2; ++i) buffers->take(4096);
  EXPECT_EQ(memory->held(), 4096);
  const auto large = buffers->take(8192);
  EXPECT_EQ(memory->held(), limit);
  EXPECT_EQ(buffers->take(100).use_count(), 1);
  const auto held = buffers->take(100);
  try {
    buffers->take(5000);
    FAIL();
  } catch (const base::Error& e) {
    EXPECT_STREQ(e.what(),
                 "out of page-locked host memory: a buffer of 8192 bytes is needed for copies, but memory.pinned_bytes "
                 "allows 12288 bytes, of which 12288 are taken; increase memory.pinned_bytes");
    EXPECT_EQ(e.code(), base::ExitCode::resource);
  }
}

template <class F>
std::string message_of(const F& call) {
  try {
    call();
    return "no error";
  } catch (const base::Error& e) {
    return e.what();
  }
}

TEST_F(CudaPinned, LimitIsNotNamedIfTheSystemRefusesMemoryBelowIt) {
  const cuda_double::PinnedCapacity capacity(4096);
  const auto held = buffers->take(100);
  EXPECT_EQ(message_of([&] { buffers->take(5000); }),
            "out of page-locked host memory: a buffer of 8192 bytes is needed for copies, but the system page-locks no "
            "more than the 4096 bytes that are taken");
  PinnedAllocator allocator(blocks, memory);
  const std::string message = message_of([&] { static_cast<void>(allocator.allocate(5000, Category::offload)); });
  EXPECT_NE(message.find("is needed, but the system page-locks no more than the 4096 bytes that are taken; in use:"),
            std::string::npos)
      << message;
  EXPECT_EQ(memory->held(), 4096);
}

TEST_F(CudaPinned, StockedBuffersNeedNoAllocation) {
  constexpr int64_t mib = int64_t{1} << 20;
  const auto unlimited = std::make_shared<PinnedMemory>(0, 0);
  const auto stocked = std::make_shared<ReusedBuffers>(blocks, unlimited);
  stocked->stock(16 * mib);
  const int64_t held = unlimited->held();
  EXPECT_GT(held, 15 * mib);
  EXPECT_LE(held, 16 * mib);
  const auto queue = std::make_shared<Queue>(0, 0);
  std::promise<void> gate;
  cuda_double::append(*queue, [f = gate.get_future().share()] { f.wait(); });
  std::vector<std::shared_ptr<std::byte>> taken;  // an allocation would wait for the queue
  for (int64_t bytes = 100; bytes <= mib / 2; bytes *= 2)
    for (int i = 0; i < 8; ++i) taken.push_back(stocked->take(bytes));
  EXPECT_EQ(unlimited->held(), held);
  gate.set_value();
  stocked->take(64 * mib);
  EXPECT_EQ(unlimited->held(), held + 64 * mib);
}

TEST_F(CudaPinned, KeptMemoryIsReusedAtTheLimitAndNeverFreed) {
  memory->keep();
  { const auto large = buffers->take(8192), small = buffers->take(100); }
  EXPECT_EQ(memory->held(), limit);
  {
    const auto one = buffers->take(100), other = buffers->take(100);  // one of the two is the large buffer
    EXPECT_THROW(static_cast<void>(buffers->take(100)), base::Error);
  }
  try {
    buffers->take(16384);
    FAIL();
  } catch (const base::Error& e) {
    EXPECT_STREQ(
        e.what(),
        "out of page-locked host memory: a buffer of 16384 bytes is needed for copies, but "
        "memory.pinned_bytes allows 12288 bytes, of which 12288 are taken and must not be freed before the run "
        "ends; increase memory.pinned_bytes");
  }
  EXPECT_EQ(memory->held(), limit);
}

TEST_F(CudaPinned, KeptOffloadedBlocksAreReusedAtTheLimitAndNeverFreed) {
  memory->keep();
  PinnedAllocator allocator(blocks, memory);
  const auto offload = [&](int64_t bytes) { return allocator.allocate(bytes, Category::offload); };
  void *const large = offload(8000), *const small = offload(100);
  allocator.deallocate(large, 8000, Category::offload);
  EXPECT_THROW(static_cast<void>(offload(9000)), base::Error);
  EXPECT_EQ(memory->held(), limit);
  EXPECT_EQ(offload(100), large);
  allocator.deallocate(large, 100, Category::offload);
  allocator.deallocate(small, 100, Category::offload);
}

TEST_F(CudaPinned, OffloadedBlocksAreReusedAndCounted) {
  PinnedAllocator allocator(blocks, memory);
  void* a = allocator.allocate(5000, Category::offload);
  EXPECT_EQ(memory->held(), 8192);
  allocator.deallocate(a, 5000, Category::offload);
  void* b = allocator.allocate(8000, Category::offload);
  EXPECT_EQ(a, b);
  EXPECT_EQ(allocator.stats().used_in(Category::offload), 8000);
  allocator.deallocate(b, 8000, Category::offload);
  void* c = allocator.allocate(9000, Category::offload);  // frees the cached buffer first
  EXPECT_EQ(memory->held(), limit);
  EXPECT_THROW(static_cast<void>(allocator.allocate(1, Category::offload)), base::Error);
  allocator.deallocate(c, 9000, Category::offload);
}

// Sizes of routed rows differ in every step, but only a few of these sizes may need an allocation.
TEST_F(CudaPinned, OffloadedBlocksOfSimilarSizesAreReused) {
  const auto unlimited = std::make_shared<PinnedMemory>(0, 0);
  PinnedAllocator allocator(blocks, unlimited);
  const auto offload = [&](int64_t bytes) {
    allocator.deallocate(allocator.allocate(bytes, Category::offload), bytes, Category::offload);
  };
  for (int64_t bytes = 1'000'000; bytes < 2'000'000; bytes += 1'000) offload(bytes);
  EXPECT_LE(unlimited->held(), int64_t{16} << 20);
}

}  // namespace
}  // namespace hexad::device::cuda
