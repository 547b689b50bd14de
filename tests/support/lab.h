// Fixture of an autograd test: a device whose new memory is NaN, parameters, and reproducible random numbers.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/support/names.h"
#include "tests/support/on_device.h"

namespace hexad::tests {

/// Source of tensors and parameters for a test. Random numbers depend on the seed and on the order of calls. The
/// constructor's seed is printed with every failure.
class Lab {
 public:
  static constexpr uint64_t default_seed = 20240611;
  /// Makes a lab on test_device(). Sets `options.poison`.
  explicit Lab(uint64_t seed = default_seed, device::DeviceContext::Options options = {});

  /// Restarts the random numbers as in a new lab with this seed.
  void restart(uint64_t seed) { seed_ = seed, drawn_ = 0; }
  /// Returns a tensor of random values with a standard normal distribution.
  Tensor randn(Shape shape, Dtype dtype = Dtype::f64);
  /// Returns a tensor of random whole numbers from [low, high). Sums of these numbers are exact in every order if the
  /// dtype can hold the sums.
  Tensor integers(Shape shape, int64_t low, int64_t high, Dtype dtype = Dtype::f64);
  /// Returns a tensor of the given values.
  template <class T>
  Tensor values(const std::vector<T>& v, Shape shape) {
    return Tensor::from<T>(v, shape, context);
  }
  template <class T>
  Tensor values(const std::vector<T>& v) {
    return values(v, {static_cast<int64_t>(v.size())});
  }
  /// Adds a parameter of random values with a standard normal distribution. The memory of its gradient holds NaN until
  /// a contribution replaces the NaN.
  Parameter& parameter(Shape shape, Dtype dtype = Dtype::f64);

  Stream& stream() { return context.compute(); }
  int64_t used(Category c) const { return context.allocator()->stats().used_in(c); }

  device::DeviceContext context;
  ParameterSet parameters{context};

 private:
  uint64_t seed_, drawn_ = 0;
  testing::ScopedTrace trace_;
};

/// Returns a copy that shares no memory with `t`, which must be contiguous.
Tensor copy_of(const Tensor& t);

}  // namespace hexad::tests
