// Reads of device memory by the host: explicit, named and counted, because each may block the device.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "framework/tensor/tensor.h"

namespace hexad::tensor {

/// Elements of a tensor that are being copied to the host, into memory to which the device copies asynchronously. The
/// host runs ahead until it calls wait() or tensor().
class HostRead {
 public:
  HostRead() = default;
  /// Blocks until the elements have arrived. The values live as long as this object.
  template <class T>
  std::span<const T> wait() const {
    arrived_.wait();
    return {values_.data<T>(), static_cast<size_t>(values_.numel())};
  }
  /// Blocks like wait(), and returns the elements as a tensor on the host of the device.
  const Tensor& tensor() const {
    arrived_.wait();
    return values_;
  }
  /// Blocks like wait(), and returns the first element, of dtype f32 or f64.
  double scalar() const {
    return values_.dtype() == Dtype::f64 ? wait<double>()[0] : static_cast<double>(wait<float>()[0]);
  }

 private:
  friend HostRead read_to_host(std::string_view name, const Tensor& tensor, Stream& stream);
  /// End of the copy. A wait for it has the read's name (device::HostWait).
  struct Arrival {
    std::string name;
    device::Event event;
    void wait() const;
  };
  Tensor values_;
  Arrival arrived_;
};

/// Copies a contiguous tensor in the order of `stream`. The read is counted under `name` in the context
/// (DeviceContext::host_reads) if the memory is not the host's own.
HostRead read_to_host(std::string_view name, const Tensor& tensor, Stream& stream);

/// Returns the tensor itself if it is in host memory, otherwise a finished copy on `tensor.device().host()`. The copy
/// is in ordinary memory, because page-locked memory is too limited for large tensors. The read is counted under
/// `name`. upload_from() copies changed values back.
Tensor copy_to_host(std::string_view name, const Tensor& tensor, Stream& stream);
/// Copies `host`, a result of copy_to_host(tensor), back to `tensor`.
void upload_from(const Tensor& host, const Tensor& tensor);
/// Returns a copy of a host tensor on `device`, or `host` itself if `device` is the host.
Tensor on_device(const Tensor& host, Device device, Category category);

}  // namespace hexad::tensor
