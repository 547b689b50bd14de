// Device of the tests, and access to tensors on any device.
#pragma once

#include <span>
#include <vector>

#include "framework/tensor/tensor.h"

namespace hexad::tests {

/// Returns the device that HEXAD_TEST_DEVICE names (cpu, emulated, cuda); the CPU if the variable is not set.
device::DeviceKind test_device();
/// Returns `options`, changed to make a context on test_device().
device::ContextOptions on_test_device(device::ContextOptions options = {});

/// Returns the values of `t` as a contiguous tensor in host memory. Returns `t` itself if `t` already is a contiguous
/// tensor in host memory, or is undefined. `t` may be strided.
tensor::Tensor to_host(const tensor::Tensor& t);
/// Overwrites a contiguous tensor. `values` must have the tensor's type and number of elements.
template <class T>
void assign(const tensor::Tensor& t, const std::vector<T>& values) {
  base::require(static_cast<int64_t>(values.size()) == t.numel(), "[test] assign() got ", values.size(),
                " values for a tensor of shape ", t.shape());
  base::require(t.dtype() == base::dtype_of<T>, "[test] assign() got a tensor of ", t.dtype(), "; its values are ",
                base::dtype_of<T>);
  t.upload(values.data());
}
/// Calls f with a span of a contiguous tensor's values, and writes the span back to the tensor.
template <class T, class F>
void change(const tensor::Tensor& t, F&& f) {
  std::vector<T> values = t.to_vector<T>();
  f(std::span<T>(values));
  assign(t, values);
}
/// Sets every byte of a tensor's memory.
void fill_bytes(const tensor::Tensor& t, uint8_t byte);

}  // namespace hexad::tests
