// The CPU as a device. Its memory is host memory, kernels run on the calling thread and its helpers, and offloaded
// tensors are stored in a file.
#include <cstring>
#include <thread>

#include "framework/base/error.h"
#include "framework/device/backend.h"
#include "framework/device/offload_arena.h"

namespace hexad::device {
namespace {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const ContextOptions& options) : options_(options) {}

  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string description() const override {
    return base::cat("CPU, ", std::thread::hardware_concurrency(), " threads");
  }
  std::shared_ptr<Allocator> make_allocator() override {
    return std::make_shared<CachingAllocator>(options_.memory_limit, options_.poison);
  }
  std::shared_ptr<Allocator> make_offload_allocator() override {
    return std::make_shared<OffloadArena>(options_.offload_folder);
  }
  std::unique_ptr<Stream> make_lane(Lane lane, bool by_itself) override {
    if (by_itself) return make_worker_stream(base::cat("lane-", name_of(lane)));
    return std::make_unique<InlineStream>();
  }
  void copy(Stream& stream, void* to, const void* from, int64_t bytes) override {
    if (bytes > 0 && to != from) stream.run([=] { std::memcpy(to, from, bytes); });
  }
  void fill(Stream& stream, void* to, uint8_t byte, int64_t bytes) override {
    if (bytes > 0) stream.run([=] { std::memset(to, byte, bytes); });
  }
  std::shared_ptr<std::byte> host_buffer(int64_t bytes) override {
    return {new std::byte[bytes], std::default_delete<std::byte[]>()};
  }

 private:
  const ContextOptions options_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const ContextOptions& options) {
  return std::make_unique<CpuBackend>(options);
}

}  // namespace hexad::device
