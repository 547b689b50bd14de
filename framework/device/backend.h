// Interface between the context of a rank and its kind of device.
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
  int place = 0;                     // index of this rank on its node; cards are assigned to ranks in turn
  int64_t memory_limit = 0;          // bytes; 0: none
  int64_t pinned_limit = 0;          // bytes of page-locked host memory, on devices that copy from it; 0: none
  int reserved_multiprocessors = 0;  // multiprocessors that products leave to communication
  bool poison = false;               // fills new blocks with NaN
  bool worker_lanes = false;         // see DeviceContext::run_lanes_on_threads
  std::string offload_folder = "/tmp";
  std::shared_ptr<MetaRun> meta{};  // required for kind meta; see framework/device/meta/meta_run.h
};

/// Interface that the folder of a device implements, with a KernelTable. All other code is device-independent.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual DeviceKind kind() const = 0;
  /// Returns a description for messages and reports: "NVIDIA H100 80GB HBM3, 132 SMs".
  virtual std::string description() const = 0;
  virtual std::shared_ptr<Allocator> make_allocator() = 0;
  virtual std::shared_ptr<Allocator> make_offload_allocator() = 0;
  virtual std::unique_ptr<Stream> make_lane(Lane lane, bool by_itself) = 0;
  /// Copies memory within the host, within the device, or between them, in the order of `stream`. Host source memory
  /// may be reused on return. A host destination is valid once the stream reaches this copy.
  virtual void copy(Stream& stream, void* to, const void* from, int64_t bytes) = 0;
  virtual void fill(Stream& stream, void* to, uint8_t byte, int64_t bytes) = 0;
  /// Allocates host memory that the device copies without the host's help.
  virtual std::shared_ptr<std::byte> host_buffer(int64_t bytes) = 0;
  /// Keeps all host_buffer() memory until the backend is destroyed, because freeing it would wait for all work of the
  /// device.
  virtual void keep_host_memory() {}
};

std::unique_ptr<Backend> make_cpu_backend(const ContextOptions& options);
/// Makes the backend of an NVIDIA card. Throws Error with the reason: usage if built without CUDA, resource if there is
/// no driver or no device.
std::unique_ptr<Backend> make_cuda_backend(const ContextOptions& options);
/// Makes the backend of the emulated device. If the environment variable HEXAD_EMULATED_JITTER is set, the start of
/// work is delayed at random; its value, a number, is the seed.
std::unique_ptr<Backend> make_emulated_backend(const ContextOptions& options);
std::unique_ptr<Backend> make_meta_backend(const ContextOptions& options);

}  // namespace hexad::device
