// Arrays of the reference kernels: every tensor, of any dtype and strides, as doubles in row-major order. Tensors may
// be on a device other than the host: elements are then copied, after the work of the device's compute stream.
#pragma once

#include <vector>

#include "framework/kernels/kernel_table.h"
#include "framework/tensor/device_access.h"

namespace hexad::kernels::reference {

using tensor::device_data;
using tensor::device_raw;

/// A tensor viewed as rows (all leading dimensions) of columns (the last). Rank 1 is one row.
struct Array {
  int64_t rows, columns;
  std::vector<double> values;

  int64_t size() const { return rows * columns; }
  double& operator[](int64_t i) { return values[i]; }
  double operator[](int64_t i) const { return values[i]; }
  double& operator()(int64_t r, int64_t c) { return (*this)[r * columns + c]; }
  double operator()(int64_t r, int64_t c) const { return (*this)[r * columns + c]; }
};

/// Returns zeros in the shape of `t`.
Array zeros(const Tensor& t);
/// Returns the elements of `t`; integers too (exact up to 2^53).
Array load(const Tensor& t);
/// Rounds the values into `t`.
void store(const Tensor& t, const Array& values);
/// Returns an integer element: an id, a row, a position.
inline int64_t index_at(const Array& a, int64_t i) { return static_cast<int64_t>(a[i]); }
/// Returns the elements of `t`, or zeros in the shape of `like` if `t` is undefined.
Array load_or_zeros(const Tensor& t, const Tensor& like);

/// Host access to the memory from a tensor's first element to its last. It is the memory itself, or a copy that can be
/// copied back.
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

/// Offsets of groups, kept for work that runs later: the host's copy if it exists, else the tensor.
class Groups {
 public:
  explicit Groups(const GroupOffsets& o) : host_(o.host.begin(), o.host.end()), device_(o.device) {}
  std::vector<int64_t> offsets() const;

 private:
  std::vector<int64_t> host_;
  Tensor device_;
};

}  // namespace hexad::kernels::reference
