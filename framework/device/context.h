// What one rank owns on its device: memory, streams, lanes. Ranks may be threads of one process, so this is per rank.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "framework/device/allocator.h"
#include "framework/device/stream.h"

namespace hexad::device {

enum class DeviceKind : uint8_t { cpu, cuda };

/// The in-order queues of the MoE schedules: traffic between nodes, inside a node, copies, and computation.
enum class Lane : uint8_t { inter, intra, copy, compute };
inline constexpr int lane_count = 4;
std::string_view name_of(Lane lane);

class DeviceContext {
 public:
  struct Options {
    int64_t memory_limit = 0;   // bytes; 0: none
    bool poison = false;        // fill new blocks with NaN
    bool worker_lanes = false;  // see run_lanes_by_themselves
    std::string offload_folder = "/tmp";
  };
  DeviceContext() : DeviceContext(Options{}) {}
  explicit DeviceContext(const Options& options);
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  DeviceKind kind() const { return DeviceKind::cpu; }
  const std::shared_ptr<Allocator>& allocator() const { return allocator_; }
  /// Created at first use: most runs offload nothing.
  const std::shared_ptr<Allocator>& offload_allocator();
  Stream& stream(Lane lane) { return *lanes_[static_cast<size_t>(lane)]; }
  Stream& compute() { return stream(Lane::compute); }
  /// Whether lanes other than compute have a thread each.
  bool lanes_run_by_themselves() const { return !lanes_.front()->runs_at_once(); }
  /// Changes that, while nothing is on its way in these lanes.
  void run_lanes_by_themselves(bool wanted);

 private:
  std::shared_ptr<Allocator> allocator_, offload_;
  std::string offload_folder_;
  std::array<std::unique_ptr<Stream>, lane_count> lanes_;
};

/// Where a tensor lives: a handle to the rank's context. The context outlives every tensor made through it, except that
/// memory is shared by handle and may be freed later.
class Device {
 public:
  Device() = default;
  Device(DeviceContext& context) : context_(&context) {}  // implicit: a context is a device
  DeviceKind kind() const { return context_->kind(); }
  DeviceContext& context() const { return *context_; }
  bool operator==(const Device&) const = default;

 private:
  DeviceContext* context_ = nullptr;
};

}  // namespace hexad::device
