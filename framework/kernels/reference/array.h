// Arrays of the reference kernels. A tensor of any dtype and strides is read as doubles in row-major order. If the
// tensor is not in host memory, its elements are copied to the host once the device's compute stream has finished its
// current work.
#pragma once

#include <vector>

#include "framework/kernels/kernel_table.h"
#include "framework/tensor/device_access.h"

namespace hexad::kernels::reference {

using tensor::device_data;
using tensor::device_raw;

/// A tensor as a matrix: its last dimension gives the columns, and all leading dimensions together give the rows. A
/// tensor of rank 1 is one row.
struct Array {
  int64_t rows, columns;
  std::vector<double> values;

  int64_t size() const { return rows * columns; }
  double& operator[](int64_t i) { return values[i]; }
  double operator[](int64_t i) const { return values[i]; }
  double& operator()(int64_t r, int64_t c) { return (*this)[r * columns + c]; }
  double operator()(int64_t r, int64_t c) const { return (*this)[r * columns + c]; }
};

/// Returns an array of zeros with the shape of `t`.
Array zeros(const Tensor& t);
/// Returns the elements of `t`. They may be integers, which are exact up to 2^53.
Array load(const Tensor& t);
/// Writes the values to `t`, rounded to its dtype.
void store(const Tensor& t, const Array& values);
/// Returns element i as an integer: an id, a row or a position.
inline int64_t index_at(const Array& a, int64_t i) { return static_cast<int64_t>(a[i]); }
/// Returns the elements of `t`, or zeros in the shape of `like` if `t` is undefined.
Array load_or_zeros(const Tensor& t, const Tensor& like);

/// Host access to the memory from a tensor's first element to its last element. For a tensor on a device, the object
/// has a copy in host memory, which put_back() writes to the device.
class HostMemory {
 public:
  explicit HostMemory(const Tensor& t);
  template <class T>
  T* data() {
    return copy_.empty() ? device_data<T>(tensor_) : reinterpret_cast<T*>(copy_.data());
  }
  std::byte* bytes() { return copy_.empty() ? static_cast<std::byte*>(device_raw(tensor_)) : copy_.data(); }
  void put_back();

 private:
  void move(void* to, const void* from);
  Tensor tensor_;
  std::vector<std::byte> copy_;
};

/// Offsets of groups, for work that runs later. If the host has the offsets, stores a copy of them. Otherwise,
/// offsets() reads the device tensor.
class StoredOffsets {
 public:
  explicit StoredOffsets(const GroupOffsets& o) : host_(o.host.begin(), o.host.end()), device_(o.device) {}
  std::vector<int64_t> offsets() const;

 private:
  std::vector<int64_t> host_;
  Tensor device_;
};

}  // namespace hexad::kernels::reference
