// Interface between the context of a rank and its device.
#pragma once

#include <memory>

#include "framework/device/allocator.h"
#include "framework/device/device_kind.h"
#include "framework/device/lane.h"
#include "framework/device/stream.h"

namespace hexad::device {

class MetaRun;

struct ContextOptions {
  DeviceKind kind = DeviceKind::cpu;
  int place = 0;                     // index of this rank on its node; chooses one of the node's cards
  int64_t memory_limit = 0;          // maximum bytes of device memory; 0: no limit
  int64_t pinned_limit = 0;          // maximum bytes of page-locked host memory: buffers for copies and, on a card,
                                     // offloaded memory; 0: no limit
  int reserved_multiprocessors = 0;  // multiprocessors reserved for communication: matrix products do not use them
  bool poison = false;               // true: every allocated block of device memory is filled with NaN
  bool worker_lanes = false;         // true: every lane except compute gets a thread; see
                                     // DeviceContext::run_lanes_on_threads
  bool update_queue = false;         // true: a device whose lanes are queues gets one more queue, for updates of
                                     // weights; see DeviceContext::updates
  std::string offload_folder = "/tmp";
  std::shared_ptr<MetaRun> meta{};  // required for DeviceKind::meta, unused otherwise; see
                                    // framework/device/meta/meta_run.h
};

/// Interface that each kind of device implements, in addition to a KernelTable.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual DeviceKind kind() const = 0;
  /// Returns a description of the device for messages and reports, such as "NVIDIA H100 80GB HBM3, 132 SMs".
  virtual std::string description() const = 0;
  virtual std::shared_ptr<Allocator> make_allocator() = 0;
  virtual std::shared_ptr<Allocator> make_offload_allocator() = 0;
  virtual std::unique_ptr<Stream> make_lane(Lane lane, bool by_itself) = 0;
  /// Makes the queue for updates of weights. The device prefers the work of all other queues. Returns null if
  /// ContextOptions::update_queue is false, or if the lanes are not queues of the device.
  virtual std::unique_ptr<Stream> make_update_queue() { return nullptr; }
  /// Copies memory within the host, within the device, or between them, in the order of `stream`. Host source memory
  /// may be reused on return; a host_buffer() may be reused once the stream has passed this copy. A host destination is
  /// valid once the stream has passed this copy. The memory of a CPU counts as device memory.
  virtual void copy(Stream& stream, void* to, const void* from, int64_t bytes) = 0;
  virtual void fill(Stream& stream, void* to, uint8_t byte, int64_t bytes) = 0;
  /// Allocates host memory that the device reads and writes directly. A copy from or to this memory needs no host
  /// thread. Throws Error(resource) if ContextOptions::pinned_limit would be exceeded, or if the system cannot
  /// page-lock more memory.
  virtual std::shared_ptr<std::byte> host_buffer(int64_t bytes) = 0;
  /// Returns the address at which kernels access `p`, an address in memory of the device. Only the emulated device has
  /// different addresses for kernels and for the host.
  virtual const void* kernel_address(const void* p) const { return p; }
  /// Returns a number that identifies the memory that kernels access. Ranks that are threads of one process and have
  /// equal numbers can access each other's device memory in kernels. A card's number is computed from the card's unique
  /// id.
  virtual int64_t memory_number() const { return 0; }
  /// Defers the release of all host_buffer() and offloaded memory until the backend is destroyed. Does nothing on
  /// devices that can free such memory without a wait for the work of the device.
  virtual void keep_host_memory() {}
};

std::unique_ptr<Backend> make_cpu_backend(const ContextOptions& options);
/// Makes the backend of an NVIDIA card. Throws Error(usage) if the program was built without CUDA, or if
/// HEXAD_LOCAL_RANK or the number of reserved multiprocessors is invalid. Throws Error(resource) if there is no driver
/// or no usable card.
std::unique_ptr<Backend> make_cuda_backend(const ContextOptions& options);
/// Makes the backend of the emulated device. The environment variable HEXAD_EMULATED_JITTER, if set, is the seed of
/// random delays before about a quarter of the launched operations. Throws Error(usage) if this variable is not a whole
/// number from 0 to 2^64 - 1. Throws Error(resource) if the system does not provide the device's address range.
std::unique_ptr<Backend> make_emulated_backend(const ContextOptions& options);
std::unique_ptr<Backend> make_meta_backend(const ContextOptions& options);

}  // namespace hexad::device
