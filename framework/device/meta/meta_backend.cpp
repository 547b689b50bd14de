// A device without memory: streams run host work immediately, and copies transfer only known values.
#include <cstring>

#include "framework/base/error.h"
#include "framework/device/backend.h"
#include "framework/device/meta/meta_allocator.h"
#include "framework/device/meta/meta_run.h"
#include "framework/device/meta/meta_stream.h"

namespace hexad::device {
namespace {

std::string_view name_of(CopyWork::Kind kind) {
  switch (kind) {
    case CopyWork::Kind::device:
      return "device";
    case CopyWork::Kind::to_host:
      return "to_host";
    case CopyWork::Kind::from_host:
      return "from_host";
    case CopyWork::Kind::offload:
      return "offload";
    case CopyWork::Kind::restore:
      return "restore";
  }
  return "";
}

class MetaBackend final : public Backend {
 public:
  explicit MetaBackend(std::shared_ptr<MetaRun> run) : run_(std::move(run)), memory_(*run_->memory()) {}

  DeviceKind kind() const override { return DeviceKind::meta; }
  std::string description() const override { return base::cat("no memory, counted as ", name_of(run_->stands_for())); }
  std::shared_ptr<Allocator> make_allocator() override {
    return std::make_shared<MetaAllocator>(run_->memory(), std::shared_ptr<IssueLog>(run_, run_->issues()));
  }
  std::shared_ptr<Allocator> make_offload_allocator() override { return make_allocator(); }
  std::unique_ptr<Stream> make_lane(Lane lane, bool by_itself) override {
    base::require(!by_itself, "[meta device] a thread was requested for lane ", name_of(lane),
                  "; call MetaRun::imitate_lanes_with_threads() instead");
    return std::make_unique<MetaStream>(lane, run_->issues(), run_->lanes_have_threads() && lane != Lane::compute);
  }

  // A copy to the host writes zeros if any byte of the source is unknown. In this case, a copy to the device makes all
  // bytes of the destination unknown. A null source is host memory with unknown bytes.
  void copy(Stream& stream, void* to, const void* from, int64_t bytes) override {
    if (bytes == 0) return;
    if (IssueLog* log = run_->issues()) {
      const CopyWork::Kind kind = kind_of_copy(to, from);
      log->add("copy", name_of(kind), lane_of(stream), CopyWork{bytes, kind});
    }
    const std::byte* values = memory_.contains(from) ? memory_.known(from, bytes) : static_cast<const std::byte*>(from);
    const size_t size = bytes;
    if (!memory_.contains(to)) {
      if (values)
        std::memcpy(to, values, size);
      else
        std::memset(to, 0, size);
    } else if (values) {
      std::memmove(memory_.remember(to, bytes), values, size);
    } else {
      memory_.forget(to, bytes);
    }
  }
  void fill(Stream& stream, void* to, uint8_t, int64_t bytes) override {
    if (bytes == 0) return;
    memory_.forget(to, bytes);
    if (IssueLog* log = run_->issues()) log->add("fill", "", lane_of(stream), MemoryWork{bytes});
  }
  std::shared_ptr<std::byte> host_buffer(int64_t bytes) override {
    return {new std::byte[bytes], std::default_delete<std::byte[]>()};
  }

 private:
  CopyWork::Kind kind_of_copy(const void* to, const void* from) {
    const bool is_host = run_->stands_for() == DeviceKind::cpu;
    if (!memory_.contains(to)) return is_host ? CopyWork::Kind::device : CopyWork::Kind::to_host;
    if (!memory_.contains(from)) return is_host ? CopyWork::Kind::device : CopyWork::Kind::from_host;
    return memory_.is_offloaded(to)     ? CopyWork::Kind::offload
           : memory_.is_offloaded(from) ? CopyWork::Kind::restore
                                        : CopyWork::Kind::device;
  }

  const std::shared_ptr<MetaRun> run_;
  MetaMemory& memory_;
};

}  // namespace

std::unique_ptr<Backend> make_meta_backend(const ContextOptions& options) {
  base::require(options.meta != nullptr, "[meta device] ContextOptions::meta is null; expected a MetaRun");
  return std::make_unique<MetaBackend>(options.meta);
}

}  // namespace hexad::device
