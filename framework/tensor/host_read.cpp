#include "framework/tensor/host_read.h"

#include "framework/device/host_wait.h"

namespace hexad::tensor {

void HostRead::Arrival::wait() const {
  const device::HostWait named(name);
  event.wait();
}

HostRead read_to_host(std::string_view name, const Tensor& tensor, Stream& stream) {
  require(tensor.contiguous(), "[host read] ", name, " is a strided tensor ", tensor.shape(),
          "; expected a contiguous tensor");
  device::DeviceContext& context = tensor.device().context();
  HostRead read;
  read.values_ = Tensor::pinned(tensor.shape(), tensor.dtype(), tensor.device());
  if (!context.on_host()) context.count_host_read(name);
  read.values_.copy_from(tensor, stream);
  read.arrived_ = {std::string(name), stream.record()};
  read.arrived_.event.keep(tensor.storage()), read.arrived_.event.keep(read.values_.storage());
  return read;
}

Tensor copy_to_host(std::string_view name, const Tensor& tensor, Stream& stream) {
  if (tensor.device().on_host()) return tensor;
  require(tensor.contiguous(), "[host read] ", name, " is a strided tensor ", tensor.shape(),
          "; expected a contiguous tensor");
  tensor.device().context().count_host_read(name);
  const Tensor copy = Tensor::empty(tensor.shape(), tensor.dtype(), tensor.device().host());
  const device::HostWait named{std::string(name)};
  copy.copy_from(tensor, stream);
  stream.synchronize();
  return copy;
}

void upload_from(const Tensor& host, const Tensor& tensor) {
  if (!tensor.device().on_host()) tensor.upload(host.raw());
}

Tensor on_device(const Tensor& host, Device device, Category category) {
  if (!host.defined() || device.on_host()) return host;
  const Tensor out = Tensor::empty(host.shape(), host.dtype(), device, category);
  out.upload(host.raw());
  return out;
}

}  // namespace hexad::tensor
