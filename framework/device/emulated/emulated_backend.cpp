// The emulated device: CPU kernels on threads that behave like the queues of a card.
#include <atomic>
#include <cstdlib>
#include <limits>
#include <string>

#include "framework/base/error.h"
#include "framework/base/parsed_number.h"
#include "framework/device/backend.h"
#include "framework/device/emulated/emulated_allocator.h"
#include "framework/device/emulated/emulated_pinned_memory.h"

namespace hexad::device {
namespace {

using namespace emulated;

// Bytes of the device's address range. Pages are allocated only at their first use.
constexpr int64_t range = int64_t{1} << 38;

// Returns the seed of random delays from the environment variable HEXAD_EMULATED_JITTER; none if it is not set.
std::optional<uint64_t> jitter_from_environment() {
  const char* text = std::getenv("HEXAD_EMULATED_JITTER");
  if (!text) return {};
  const auto seed = base::parsed_number<uint64_t>(text);
  if (!seed)
    base::fail(base::ExitCode::usage, "HEXAD_EMULATED_JITTER is '", text, "', expected a whole number from 0 to ",
               std::numeric_limits<uint64_t>::max());
  // The counter gives different delays to ranks that are threads of one process.
  static std::atomic<uint64_t> contexts{0};
  return *seed + (contexts++ << 32);
}

class EmulatedBackend final : public Backend {
 public:
  explicit EmulatedBackend(const ContextOptions& options)
      : options_(options),
        jitter_(jitter_from_environment()),
        heap_(std::make_shared<Heap>(range, std::make_shared<Queue>("cleaner", jitter_))),
        pinned_(std::make_shared<PinnedMemory>(options.pinned_limit)) {}

  DeviceKind kind() const override { return DeviceKind::emulated; }
  std::string description() const override { return "emulated device on the CPU"; }
  std::shared_ptr<Allocator> make_allocator() override {
    return std::make_shared<EmulatedAllocator>(heap_, options_.memory_limit);
  }
  std::shared_ptr<Allocator> make_offload_allocator() override { return std::make_shared<EmulatedAllocator>(heap_); }
  // Ignores the request for a thread (the second argument), because every lane is a queue with its own thread.
  std::unique_ptr<Stream> make_lane(Lane lane, bool) override {
    return std::make_unique<EmulatedStream>(heap_, std::make_shared<Queue>(std::string(name_of(lane)), jitter_));
  }
  std::unique_ptr<Stream> make_update_queue() override {
    if (!options_.update_queue) return nullptr;
    return std::make_unique<EmulatedStream>(heap_, std::make_shared<Queue>("updates", jitter_));
  }

  // Emulates CUDA's copies of pageable host memory. When the call returns, a copy from such memory has read its source,
  // and a copy to such memory is complete. A copy between host_buffer() memory and the device is asynchronous.
  void copy(Stream& stream, void* to, const void* from, int64_t bytes) override {
    if (bytes <= 0 || to == from) return;
    EmulatedStream& queue = emulated_stream(stream);
    std::shared_ptr<std::byte> held = pinned_->holder_of(from);
    if (!held && !heap_->memory().contains(from)) {
      held = pinned_->take(bytes);
      std::memcpy(held.get(), from, bytes);
      from = held.get();
    }
    const std::shared_ptr<std::byte> target = pinned_->holder_of(to);
    void* const blocks[] = {to, const_cast<void*>(from)};
    queue.launch(blocks, [to = there(to), from = there(from), bytes, held, target] { std::memcpy(to, from, bytes); });
    if (!target && !heap_->memory().contains(to)) queue.synchronize();
  }
  void fill(Stream& stream, void* to, uint8_t byte, int64_t bytes) override {
    if (bytes <= 0) return;
    emulated_stream(stream).launch({&to, 1}, [to = there(to), byte, bytes] { std::memset(to, byte, bytes); });
  }
  std::shared_ptr<std::byte> host_buffer(int64_t bytes) override { return pinned_->take(bytes); }
  const void* kernel_address(const void* p) const override { return there(p); }

 private:
  // Returns the address at which the device accesses `p`, an address of the device or of the host.
  void* there(const void* p) const {
    return heap_->memory().contains(p) ? heap_->memory().device(p) : const_cast<void*>(p);
  }

  const ContextOptions options_;
  const std::optional<uint64_t> jitter_;
  const std::shared_ptr<Heap> heap_;
  const std::shared_ptr<PinnedMemory> pinned_;
};

}  // namespace

std::unique_ptr<Backend> make_emulated_backend(const ContextOptions& options) {
  return std::make_unique<EmulatedBackend>(options);
}

}  // namespace hexad::device
