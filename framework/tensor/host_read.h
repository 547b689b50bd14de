// Reads of device memory by the host: explicit, named and counted, since each may hold up the device.
#pragma once

#include <span>
#include <string_view>

#include "framework/tensor/tensor.h"

namespace hexad::tensor {

/// Elements of a tensor on their way to the host.
class HostRead {
 public:
  HostRead() = default;
  /// Blocks until they are there. The values live as long as this object.
  template <class T>
  std::span<const T> wait() const {
    arrived_.wait();
    return {values_.data<T>(), static_cast<size_t>(values_.numel())};
  }
  /// A single floating element.
  double scalar() const {
    return values_.dtype() == Dtype::f64 ? wait<double>()[0] : static_cast<double>(wait<float>()[0]);
  }

 private:
  friend HostRead read_to_host(std::string_view name, const Tensor& tensor, Stream& stream);
  Tensor values_;
  device::Event arrived_;
};

/// Copies a contiguous tensor in the order of `stream`. Counted under `name` in the context (DeviceContext::host_reads)
/// where memory is not the host's own.
HostRead read_to_host(std::string_view name, const Tensor& tensor, Stream& stream);

/// The tensor itself where it is the host's already, else a copy on `tensor.device().host()` that has arrived: a read
/// that is counted under `name`. Where the values are changed, `upload_from` brings them back.
Tensor copy_to_host(std::string_view name, const Tensor& tensor, Stream& stream);
/// `host` is what copy_to_host(tensor) gave.
void upload_from(const Tensor& host, const Tensor& tensor);
/// The values of a host tensor on `device`: itself where that is on the host.
Tensor on_device(const Tensor& host, Device device, Category category);

}  // namespace hexad::tensor
