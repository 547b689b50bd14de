// Common parts of tests that call each kernel table of a test program with chosen inputs.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/kernels/backends.h"

namespace hexad::tests {

using base::Dtype;
using base::Shape;
using device::Device;
using device::Stream;
using kernels::KernelTable;
using tensor::Tensor;

inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float inf = std::numeric_limits<float>::infinity();

/// Fixture with one kernel table, its device, and functions that make tensors on this device.
class EdgeTest : public ::testing::TestWithParam<Backend> {
 protected:
  const KernelTable& k = *GetParam().table;
  device::DeviceContext context{{.kind = GetParam().kind}};
  Device device{context};
  Stream& stream = context.compute();

  template <class T>
  Tensor tensor(std::vector<T> values, Shape shape) {
    return Tensor::from<T>(values, shape, device);
  }
  Tensor doubles(const std::vector<double>& values) {
    return tensor<double>(values, {static_cast<int64_t>(values.size())});
  }
  Tensor empty(Shape shape, Dtype dtype = Dtype::f32) { return Tensor::empty(shape, dtype, device); }
  Tensor filled(Shape shape, float value) { return tensor(std::vector<float>(shape.numel(), value), shape); }
};

using Ids = std::vector<int32_t>;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Rows = std::vector<int64_t>;

}  // namespace hexad::tests
