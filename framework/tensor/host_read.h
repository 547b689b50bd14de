// Copies of tensors between a device and the host. Every read by the host is explicit, named and counted, because it
// may block the host.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "framework/tensor/tensor.h"

namespace hexad::tensor {

/// Elements of a tensor that are being copied asynchronously to the host. The host is not blocked until it calls
/// wait(), tensor() or scalar().
class HostRead {
 public:
  HostRead() = default;
  /// Blocks until the elements have arrived. The returned span is valid until this object is destroyed.
  template <class T>
  std::span<const T> wait() const {
    arrived_.wait();
    return {values_.data<T>(), static_cast<size_t>(values_.numel())};
  }
  /// Blocks like wait(), and returns the elements as a tensor on the device's host context.
  const Tensor& tensor() const {
    arrived_.wait();
    return values_;
  }
  /// Blocks like wait(), and returns the first element of an f32 or f64 tensor.
  double scalar() const {
    return values_.dtype() == Dtype::f64 ? wait<double>()[0] : static_cast<double>(wait<float>()[0]);
  }

 private:
  friend HostRead read_to_host(std::string_view name, const Tensor& tensor, Stream& stream);
  /// End of the copy. A wait for the copy is recorded under the name of the read (device::HostWait).
  struct Arrival {
    std::string name;
    device::Event event;
    void wait() const;
  };
  Tensor values_;
  Arrival arrived_;
};

/// Starts to copy a contiguous tensor to the host, in the order of `stream`. The context counts the read under `name`
/// (DeviceContext::host_reads) if the tensor's device is not the host.
HostRead read_to_host(std::string_view name, const Tensor& tensor, Stream& stream);

/// Returns the tensor itself if its device is the host, otherwise a finished copy on `tensor.device().host()`. The copy
/// is counted under `name`. It is in ordinary memory, because page-locked memory is too scarce for large tensors. The
/// tensor must be contiguous if it is copied. Call upload_from() to copy changed values back.
Tensor copy_to_host(std::string_view name, const Tensor& tensor, Stream& stream);
/// Copies `host`, which copy_to_host(tensor) returned, back to `tensor`. Does nothing if both are the same tensor.
void upload_from(const Tensor& host, const Tensor& tensor);
/// Returns a copy of `host` on `device`, or `host` itself if it is undefined or `device` is the host.
Tensor on_device(const Tensor& host, Device device, Category category);

}  // namespace hexad::tensor
