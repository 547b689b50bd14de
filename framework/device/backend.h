// Interface by which a kind of device serves the context of a rank.
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
  int place = 0;              // among the ranks of this node, to which its cards are given in turn
  int64_t memory_limit = 0;   // bytes; 0: none
  int64_t pinned_limit = 0;   // bytes of page-locked host memory, on devices that copy from it; 0: none
  bool poison = false;        // fill new blocks with NaN
  bool worker_lanes = false;  // see DeviceContext::run_lanes_on_threads
  std::string offload_folder = "/tmp";
  std::shared_ptr<MetaRun> meta{};  // of kind meta, which needs it; see framework/device/meta/meta_run.h
};

/// Interface that the folder of a device implements, together with a KernelTable. All other code is device-independent.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual DeviceKind kind() const = 0;
  /// "NVIDIA H100 80GB HBM3, 132 SMs": for messages and reports.
  virtual std::string description() const = 0;
  virtual std::shared_ptr<Allocator> make_allocator() = 0;
  virtual std::shared_ptr<Allocator> make_offload_allocator() = 0;
  virtual std::unique_ptr<Stream> make_lane(Lane lane, bool by_itself) = 0;
  /// Copies between any two of host and device memory, in the order of `stream`. Host source memory may be reused on
  /// return. A host destination is valid once the stream reaches this copy.
  virtual void copy(Stream& stream, void* to, const void* from, int64_t bytes) = 0;
  virtual void fill(Stream& stream, void* to, uint8_t byte, int64_t bytes) = 0;
  /// Host memory to which the device copies without the host's help.
  virtual std::shared_ptr<std::byte> host_buffer(int64_t bytes) = 0;
};

std::unique_ptr<Backend> make_cpu_backend(const ContextOptions& options);
/// Throws Error naming the reason: usage if built without CUDA, resource if there is no driver or no device.
std::unique_ptr<Backend> make_cuda_backend(const ContextOptions& options);
/// HEXAD_EMULATED_JITTER, a number: work starts late at random, drawn by this seed.
std::unique_ptr<Backend> make_emulated_backend(const ContextOptions& options);
std::unique_ptr<Backend> make_meta_backend(const ContextOptions& options);

}  // namespace hexad::device
