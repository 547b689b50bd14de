// Access to the addresses of tensors and storages on any device. Only kernels, the exchange of device memory between
// ranks, and their tests and benchmarks may include this file. Files that include this file are compiled with
// HEXAD_DEVICE_CODE. All other code uses kernels, copies and the named reads of host_read.h (docs/devices.md).
#pragma once

#ifndef HEXAD_DEVICE_CODE
#error "only kernels and backends may access memory of a device; see docs/devices.md"
#endif

#include "framework/tensor/tensor.h"

namespace hexad::tensor {

class DeviceAccess {
 public:
  static void* raw(const Tensor& t) { return t.device_raw(); }
  static std::byte* begin(const Storage& s) { return s.begin(); }
  /// Returns a u8 tensor [bytes] on `device` that does not own its memory. A library allocated the memory, which must
  /// outlive the tensor.
  static Tensor borrowed(std::byte* begin, int64_t bytes, Device device) {
    Tensor t;
    t.storage_ = Storage::borrow(begin, bytes);
    t.shape_ = {bytes};
    t.strides_ = t.shape_.row_major_strides();
    t.dtype_ = Dtype::u8;
    t.device_ = device;
    return t;
  }
};

inline void* device_raw(const Tensor& t) { return DeviceAccess::raw(t); }
/// Returns the address of the first element. Throws std::logic_error if T is not the tensor's dtype.
template <class T>
T* device_data(const Tensor& t) {
  require(dtype_of<T> == t.dtype(), "[tensor] access to ", t.shape(), " as ", dtype_of<T>, "; expected its dtype, ",
          t.dtype());
  return static_cast<T*>(device_raw(t));
}

}  // namespace hexad::tensor
