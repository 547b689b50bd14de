// Device resources of one rank: memory, streams, lanes. Each rank has a separate context, because ranks may be threads
// of one process.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "framework/base/ordinal.h"
#include "framework/device/backend.h"
#include "framework/device/span_log.h"

namespace hexad::device {

class DeviceContext {
 public:
  using Options = ContextOptions;
  DeviceContext() : DeviceContext(Options{}) {}
  explicit DeviceContext(const Options& options);
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  DeviceKind kind() const { return kind_; }
  /// True if the host may access the memory of tensors, and launches on Lane::compute return after the kernel has
  /// finished.
  bool on_host() const { return kind_ == DeviceKind::cpu; }
  /// True if launches are asynchronous, so that the host should avoid waiting for results. On a meta device: true if
  /// launches would be asynchronous on the device that it represents.
  bool runs_ahead() const { return runs_ahead_; }
  /// Returns the meta run of a meta device; null on other devices.
  MetaRun* meta() const { return meta_.get(); }
  std::string description() const { return backend_->description(); }
  const std::shared_ptr<Allocator>& allocator() const { return allocator_; }
  /// Returns the allocator of offloaded memory. It is created at the first call, because most runs offload nothing.
  /// Thread-safe.
  const std::shared_ptr<Allocator>& offload_allocator();
  Stream& stream(Lane lane) { return *lanes_[base::ordinal(lane)]; }
  Stream& compute() { return stream(Lane::compute); }
  /// Returns the queue for updates of weights that run while the compute lane continues. Returns the compute lane if
  /// ContextOptions::update_queue is false, and on a CPU and a meta device.
  Stream& updates() { return updates_ ? *updates_ : compute(); }
  /// True if a thread for each lane except compute was requested: by the latest call of run_lanes_on_threads() or,
  /// before its first call, by Options::worker_lanes.
  bool lanes_have_threads() const { return lanes_have_threads_; }
  /// Sets whether each lane except compute has its own thread. Has no effect on lanes that are queues of a device; such
  /// queues may have pending work. All other lanes, except compute, must have no pending work. Throws std::logic_error
  /// on a meta device if `wanted` is true.
  void run_lanes_on_threads(bool wanted);

  /// Copies memory as Backend::copy describes. All copies between host and device use this function, except copies of
  /// offloaded tensors (PointwiseKernels::copy).
  void copy(Stream& stream, void* to, const void* from, int64_t bytes) { backend_->copy(stream, to, from, bytes); }
  void fill(Stream& stream, void* to, uint8_t byte, int64_t bytes) { backend_->fill(stream, to, byte, bytes); }

  std::shared_ptr<std::byte> host_buffer(int64_t bytes) { return backend_->host_buffer(bytes); }
  /// See Backend::kernel_address() and Backend::memory_number().
  const void* kernel_address(const void* p) const { return backend_->kernel_address(p); }
  int64_t memory_number() const { return backend_->memory_number(); }
  /// Defers the release of all host_buffer() and offloaded memory until this context is destroyed. Required if work of
  /// the device waits for other ranks. Without this call, ranks can deadlock: freeing such memory blocks the host until
  /// all work of the device is done. Meanwhile, the other ranks may wait for this host.
  void keep_host_memory() { backend_->keep_host_memory(); }

  /// Returns a stream for host work that follows device work. The stream's thread, not the caller, waits for the
  /// device. The stream is created at the first call.
  Stream& host_stream();
  /// Lifetime guard for callbacks that may outlive this context. If the context still exists, during() runs `use`,
  /// blocks the context's destructor meanwhile, and returns true. If the context is gone, during() only returns false.
  class Life {
   public:
    bool during(const std::function<void()>& use);

   private:
    friend class DeviceContext;
    std::mutex mutex_;
    bool over_ = false;
  };
  const std::shared_ptr<Life>& life() const { return life_; }

  /// Returns the context in which ranks exchange small data: this context if it is on the host; otherwise a CPU context
  /// that this context owns.
  DeviceContext& host();

  /// Number of copies of device memory that the host has requested, by the name passed to read_to_host() or
  /// copy_to_host(). Empty if the host can read the memory of tensors.
  using HostReads = std::map<std::string, int64_t, std::less<>>;
  const HostReads& host_reads() const { return host_reads_; }
  /// Returns the counts of host_reads() since the previous call, and resets them.
  HostReads take_host_reads() { return std::exchange(host_reads_, {}); }
  void count_host_read(std::string_view name);

  /// Returns the log of the rank thread's time spans, for traces.
  SpanLog& spans() { return spans_; }
  /// Returns the bytes in use by category. Offloaded memory is included.
  std::array<int64_t, category_count> used_memory() const;

 private:
  std::unique_ptr<Backend> backend_;
  DeviceKind kind_;
  std::shared_ptr<MetaRun> meta_;
  bool runs_ahead_;
  std::shared_ptr<Allocator> allocator_, offload_;
  mutable std::mutex offload_mutex_;  // guards offload_ until it is set
  std::array<std::unique_ptr<Stream>, lane_count> lanes_;
  std::unique_ptr<Stream> updates_;  // null: updates run on the compute lane
  bool lanes_have_threads_ = false;
  std::unique_ptr<DeviceContext> host_;
  std::unique_ptr<Stream> host_stream_;
  const std::shared_ptr<Life> life_ = std::make_shared<Life>();
  HostReads host_reads_;
  SpanLog spans_{*this};
};

/// Location of a tensor: a handle to the rank's context. A tensor must not be used after its context is destroyed.
/// A tensor may be destroyed after its context, for example by an Event that holds the tensor; this frees its memory.
class Device {
 public:
  Device() = default;
  Device(DeviceContext& context) : context_(&context) {}  // implicit conversion of a context to a location
  DeviceKind kind() const { return context_->kind(); }
  bool on_host() const { return context_->on_host(); }
  /// True if tensors of the device have memory. False only for a meta device.
  bool has_memory() const { return context_->meta() == nullptr; }
  /// True if launches are asynchronous (DeviceContext::runs_ahead).
  bool runs_ahead() const { return context_->runs_ahead(); }
  /// Returns the location that corresponds to DeviceContext::host().
  Device host() const { return context_->host(); }
  DeviceContext& context() const { return *context_; }
  bool operator==(const Device&) const = default;

 private:
  DeviceContext* context_ = nullptr;
};

}  // namespace hexad::device
