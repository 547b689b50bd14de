#include "framework/tensor/host_read.h"

namespace hexad::tensor {

HostRead read_to_host(std::string_view name, const Tensor& tensor, Stream& stream) {
  require(tensor.contiguous(), "[host read] ", name, " is a strided ", tensor.shape());
  device::DeviceContext& context = tensor.device().context();
  HostRead read;
  read.count_ = tensor.numel();
  read.dtype_ = tensor.dtype();
  read.buffer_ = context.host_buffer(tensor.bytes());
  if (!context.on_host()) context.count_host_read(name);
  if (tensor.bytes() > 0) context.copy(stream, read.buffer_.get(), tensor.device_raw(), tensor.bytes());
  read.arrived_ = stream.record();
  read.arrived_.keep(tensor.storage()), read.arrived_.keep(read.buffer_);
  return read;
}

Tensor copy_to_host(std::string_view name, const Tensor& tensor, Stream& stream) {
  if (tensor.device().on_host()) return tensor;
  device::DeviceContext& context = tensor.device().context();
  const Tensor copy = Tensor::empty(tensor.shape(), tensor.dtype(), tensor.device().host());
  require(tensor.contiguous(), "[host read] ", name, " is a strided ", tensor.shape());
  context.count_host_read(name);
  if (tensor.bytes() > 0) context.copy(stream, copy.raw(), tensor.device_raw(), tensor.bytes());
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
