// The surroundings of an autograd test: a device whose fresh memory is NaN, parameters, and numbers that repeat.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "framework/autograd/tape.h"
#include "tests/support/on_device.h"

namespace hexad::tests {

using autograd::Parameter;
using autograd::ParameterSet;
using base::Dtype;
using base::Shape;
using device::Category;
using device::Stream;
using tensor::Tensor;

/// Numbers depend on the seed and on the order of calls; the seed is printed with every failure.
class Lab {
 public:
  static constexpr uint64_t default_seed = 20240611;
  /// On the device of on_device.h; `options.poison` is set.
  explicit Lab(uint64_t seed = default_seed, device::DeviceContext::Options options = {});

  /// From here on numbers are those of a lab of this seed.
  void restart(uint64_t seed) { seed_ = seed, drawn_ = 0; }
  /// Standard normal values.
  Tensor randn(Shape shape, Dtype dtype = Dtype::f64);
  /// Whole numbers from [low, high): sums of them are exact in every order.
  Tensor integers(Shape shape, int64_t low, int64_t high, Dtype dtype = Dtype::f64);
  /// The given values.
  template <class T>
  Tensor values(const std::vector<T>& v, Shape shape) {
    return Tensor::from<T>(v, shape, context);
  }
  template <class T>
  Tensor values(const std::vector<T>& v) {
    return values(v, {static_cast<int64_t>(v.size())});
  }
  /// Adds a parameter of normal values; the gradient's memory holds NaN until a contribution replaces it.
  Parameter& parameter(Shape shape, Dtype dtype = Dtype::f64);

  Stream& stream() { return context.compute(); }
  int64_t used(Category c) const { return context.allocator()->stats().used_in(c); }

  device::DeviceContext context;
  ParameterSet parameters{context};

 private:
  uint64_t seed_, drawn_ = 0;
  testing::ScopedTrace trace_;
};

/// A copy that shares nothing.
Tensor copy_of(const Tensor& t);

}  // namespace hexad::tests
