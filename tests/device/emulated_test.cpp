// The emulated device reveals errors that would also occur on a card: early reads, memory that is freed too soon, and
// host access to device memory.
#include "framework/device/emulated/emulated_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <thread>

#include "framework/base/error.h"
#include "framework/device/context.h"
#include "framework/device/emulated/emulated_allocator.h"
#include "framework/device/emulated/heap.h"

namespace hexad::tests {
namespace {

using namespace device;

// Gate at which launched work waits until let_go().
struct Gate {
  std::atomic<bool> open = false;
  void wait() { open.wait(false); }
  void let_go() { open = true, open.notify_all(); }
};

class EmulatedDevice : public ::testing::Test {
 protected:
  DeviceContext device{{.kind = DeviceKind::emulated}};
  emulated::EmulatedStream& lane(Lane l) { return emulated::emulated_stream(device.stream(l)); }
  float* allocate() { return static_cast<float*>(device.allocator()->allocate(bytes, Category::temporary)); }
  void free(float* block) { device.allocator()->deallocate(block, bytes, Category::temporary); }
  float* there(float* block) { return reinterpret_cast<float*>(lane(Lane::compute).heap().memory().device(block)); }
  float read(Lane from, float* block) {
    const auto buffer = device.host_buffer(bytes);
    device.copy(device.stream(from), buffer.get(), block, bytes);
    device.stream(from).synchronize();
    float value;
    std::memcpy(&value, buffer.get(), sizeof value);
    return value;
  }
  static constexpr int64_t bytes = 4096;
};

TEST_F(EmulatedDevice, LaunchesReturnImmediately) {
  Gate gate;
  bool ran = false;
  lane(Lane::compute).launch({}, [&] { gate.wait(), ran = true; });
  const Event end = device.compute().record();
  EXPECT_FALSE(end.done());
  gate.let_go();
  end.wait();
  EXPECT_TRUE(ran);
}

TEST_F(EmulatedDevice, QueueForUpdatesDoesNotDelayTheComputeLane) {
  EXPECT_EQ(&device.updates(), &device.compute()) << "no queue for updates was requested";
  DeviceContext with_queue({.kind = DeviceKind::emulated, .update_queue = true});
  Gate gate;
  emulated::emulated_stream(with_queue.updates()).launch({}, [&] { gate.wait(); });
  const Event updated = with_queue.updates().record();
  with_queue.compute().synchronize();
  EXPECT_FALSE(updated.done());
  gate.let_go();
  updated.wait();
}

TEST_F(EmulatedDevice, LanesDoNotWaitForEachOtherByDefault) {
  Gate gate;
  lane(Lane::compute).launch({}, [&] { gate.wait(); });
  const Event computed = device.compute().record();
  device.stream(Lane::inter).synchronize();  // does not wait for the busy lane
  EXPECT_FALSE(computed.done());
  bool before = false;
  device.stream(Lane::copy).wait(computed);
  lane(Lane::copy).launch({}, [&] { before = computed.done(); });
  gate.let_go();
  device.stream(Lane::copy).synchronize();
  EXPECT_TRUE(before);
}

// Returns the message of the exception that `call` throws; "no error" if it throws none.
template <class F>
std::string message_of(const F& call) {
  try {
    call();
    return "no error";
  } catch (const std::exception& e) {
    return e.what();
  }
}

// A change of the schedule may request threads while lanes still have work, for example copies of updated weights.
TEST_F(EmulatedDevice, LanesWithPendingWorkRemainIfThreadsAreWanted) {
  Gate gate;
  lane(Lane::copy).launch({}, [&] { gate.wait(); });
  const Event end = lane(Lane::copy).record();
  const Stream* const before = &lane(Lane::copy);
  for (const bool wanted : {true, false}) {
    device.run_lanes_on_threads(wanted);
    EXPECT_EQ(device.lanes_have_threads(), wanted);
    EXPECT_EQ(&lane(Lane::copy), before);
    EXPECT_FALSE(end.done());
  }
  gate.let_go();
  end.wait();
}

TEST_F(EmulatedDevice, TakesNoHostWork) {
  EXPECT_EQ(message_of([&] { device.compute().run([] {}); }),
            "[emulated device] host work was appended to the queue 'compute'; expected kernels and copies");
}

TEST_F(EmulatedDevice, RefusesStreamsOfTheHost) {
  InlineStream host;
  EXPECT_EQ(message_of([&] { emulated::emulated_stream(host); }),
            "[emulated device] a kernel was given a stream of the host; expected an EmulatedStream");
}

TEST_F(EmulatedDevice, NamesTheAddressOfWrongFreesAndUses) {
  float* const block = allocate();
  const auto& memory = lane(Lane::compute).heap().memory();
  void* const inside = block + 1;
  void* const after = memory.host(memory.bytes() - 1);
  const auto use = [&](void* place) { return message_of([&] { lane(Lane::compute).launch({&place, 1}, [] {}); }); };
  EXPECT_EQ(message_of([&] { device.allocator()->deallocate(inside, 0, Category::temporary); }),
            base::cat("[emulated device] free() of ", inside,
                      ", at which no block begins; expected the first address of a block in use"));
  EXPECT_EQ(use(after), base::cat("[emulated device] work on memory at ", after,
                                  ", which was freed; expected memory of a block in use"));
  free(block);
  const auto queue = std::make_shared<emulated::Queue>("cleaner", std::nullopt);
  emulated::Heap unused(1 << 16, queue);
  void* const first = unused.memory().host(0);
  EXPECT_EQ(message_of([&] { unused.touch(first, queue); }),
            base::cat("[emulated device] work on memory at ", first,
                      ", outside every block; expected memory of a block in use"));
}

TEST(EmulatedMemory, NamesTheSizeThatTheSystemRefuses) {
  const auto files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = files();
  EXPECT_EQ(message_of([] { const emulated::MirroredMemory memory(-1); }),
            "[emulated device] sizing its memory of -1 bytes failed: Invalid argument");
  EXPECT_EQ(files(), before) << "the memory's file must be closed";
}

TEST_F(EmulatedDevice, FreshMemoryIsNan) {
  float* block = allocate();
  EXPECT_TRUE(std::isnan(read(Lane::compute, block)));
  free(block);
}

using EmulatedDeviceDeathTest = EmulatedDevice;

TEST_F(EmulatedDeviceDeathTest, EndsAProcessIfItsHostReadsDeviceMemory) {
  float* block = allocate();
  EXPECT_DEATH(static_cast<void>(*static_cast<volatile float*>(block)), "");
  free(block);
}

// Frees a block, and allocates and frees it again. A lane whose use of the block was not announced then reads NaN.
TEST_F(EmulatedDevice, MemoryFreedTooSoonReadsAsNan) {
  float* block = allocate();
  device.fill(device.compute(), block, 0, bytes);
  device.compute().synchronize();
  free(block);
  device.allocator()->deallocate(allocate(), bytes, Category::temporary);
  float seen = 0;
  const float* p = there(block);
  for (int tries = 0; tries < 1000 && !std::isnan(seen); ++tries) {
    lane(Lane::inter).launch({}, [&] { seen = *static_cast<const volatile float*>(p); });
    device.stream(Lane::inter).synchronize();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(std::isnan(seen));
}

TEST_F(EmulatedDevice, FreedMemoryServesTheNextUserOnceTheLastUserIsDone) {
  Gate gate;
  float *first = allocate(), seen = -1;
  device.fill(device.compute(), first, 0, bytes);
  void* const blocks[] = {first};
  lane(Lane::compute).launch(blocks, [&, p = there(first)] { gate.wait(), seen = *p; });
  free(first);
  float* second = allocate();
  ASSERT_EQ(second, first);  // memory is reused in the order of issue, not of execution
  device.fill(device.stream(Lane::copy), second, 0x3f, bytes);
  const Event filled = device.stream(Lane::copy).record();
  EXPECT_FALSE(filled.done());
  gate.let_go();
  filled.wait();
  device.compute().synchronize();
  EXPECT_EQ(seen, 0);
  free(second);
}

TEST_F(EmulatedDevice, CopiesFromPageableMemoryReadItBeforeReturning) {
  Gate gate;
  float* block = allocate();
  lane(Lane::compute).launch({}, [&] { gate.wait(); });
  std::vector<float> values(bytes / 4, 5);
  device.copy(device.compute(), block, values.data(), bytes);
  values.assign(values.size(), 6);
  gate.let_go();
  EXPECT_EQ(read(Lane::compute, block), 5);
  free(block);
}

TEST_F(EmulatedDevice, CopiesFromPinnedMemoryReadItWhenTheQueueReachesThem) {
  Gate gate;
  float* block = allocate();
  lane(Lane::compute).launch({}, [&] { gate.wait(); });
  const auto buffer = device.host_buffer(bytes);
  std::memset(buffer.get(), 0, bytes);
  device.copy(device.compute(), block, buffer.get(), bytes);
  std::memset(buffer.get(), 0xff, bytes);  // too early: the copy has not read it yet
  gate.let_go();
  EXPECT_TRUE(std::isnan(read(Lane::compute, block)));
  free(block);
}

TEST_F(EmulatedDevice, FailureIsThrownByLaterWaitsAndLaunches) {
  lane(Lane::compute).launch({}, [] { base::fail(base::ExitCode::resource, "no room"); });
  EXPECT_THROW(device.compute().synchronize(), base::Error);
  EXPECT_THROW(lane(Lane::compute).launch({}, [] {}), base::Error);
}

TEST_F(EmulatedDevice, RefusesBlocksBeyondItsLimit) {
  DeviceContext small({.kind = DeviceKind::emulated, .memory_limit = 1024});
  EXPECT_THROW(small.allocator()->allocate(2048, Category::activation), base::Error);
}

TEST(EmulatedAllocator, NamesItsLimitOnlyIfTheBlockExceedsIt) {
  const auto heap =
      std::make_shared<emulated::Heap>(1 << 16, std::make_shared<emulated::Queue>("cleaner", std::nullopt));
  emulated::EmulatedAllocator allocator(heap, 1 << 20);
  const auto message = [&](int64_t bytes) -> std::string {
    try {
      static_cast<void>(allocator.allocate(bytes, Category::activation));
    } catch (const base::Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_TRUE(message(1 << 21).starts_with(
      "out of memory of the emulated device: activation block of 2097152 bytes does not fit under the limit of 1048576 "
      "bytes; in use:\n"));
  EXPECT_TRUE(message(1 << 17).starts_with(
      "out of memory of the emulated device: activation block of 131072 bytes cannot be allocated; in use:\n"));
}

TEST_F(EmulatedDevice, RefusesPinnedMemoryBeyondItsLimit) {
  DeviceContext small({.kind = DeviceKind::emulated, .pinned_limit = 1024});
  const auto held = small.host_buffer(1000);
  EXPECT_THROW(small.host_buffer(25), base::Error);
  EXPECT_NE(small.host_buffer(24), nullptr);
}

}  // namespace
}  // namespace hexad::tests
