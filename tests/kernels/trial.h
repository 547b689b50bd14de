// The surroundings of one kernel call in a test: repeatable inputs, and outputs that start as NaN between guard bands.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::tests {

using base::accumulator_dtype;
using base::Dtype;
using base::Shape;
using device::Device;
using device::Stream;
using tensor::Tensor;

/// Rows of T tokens and D features, and the dtype of the operands.
struct Size {
  int64_t rows, width;
};

/// aligned_rows: strided, too, but rows of a multiple of 8 elements begin on multiples of 16 bytes.
enum class Layout : uint8_t { contiguous, strided_rows, aligned_rows };

/// Measure of the error of an element that is small from cancellation: the root mean square of its tensor, or of its
/// row (all of the last dimension) where that is larger: for rows whose sums have addends of different sizes.
enum class Yardstick : uint8_t { tensor, row };

/// Two Trials of one seed give equal inputs in the same order of calls, so that a body can be run on two tables, on one
/// device or two.
class Trial {
 public:
  /// On the host.
  Trial(uint64_t seed, Size size_, Dtype dtype_)
      : Trial(seed, size_, dtype_, std::make_unique<device::DeviceContext>()) {}
  /// On `device`, whose context outlives this.
  Trial(uint64_t seed, Size size_, Dtype dtype_, Device device)
      : size(size_), dtype(dtype_), stream(device.context().compute()), device_(device), seed_(seed) {}

  /// Standard normal values.
  Tensor normal(Shape shape, Dtype type, Layout layout = Layout::contiguous);
  Tensor normal(Shape shape, Layout layout = Layout::contiguous) { return normal(shape, dtype, layout); }
  /// Uniform in [0, bound).
  Tensor integers(Shape shape, Dtype type, int64_t bound);
  template <class T>
  Tensor values(const std::vector<T>& v, Shape shape) {
    return Tensor::from<T>(v, shape, device_);
  }

  /// Poisoned; compared afterwards. `terms`: length of the longest sum behind an element, for the tolerance.
  Tensor output(Shape shape, Dtype type, int64_t terms = 1, Layout layout = Layout::contiguous,
                Yardstick yardstick = Yardstick::tensor);
  Tensor output(Shape shape, int64_t terms = 1, Layout layout = Layout::contiguous) {
    return output(shape, dtype, terms, layout);
  }
  /// Starts as normal values; compared afterwards: for kernels that add or work in place.
  Tensor update(Shape shape, Dtype type, int64_t terms = 1);
  /// Scratch that is not compared: what a forward pass keeps for backward.
  Tensor scratch(Shape shape, Dtype type) { return Tensor::empty(shape, type, device_); }
  /// Zeros are the point of this case: do not mistrust a result full of them.
  void expect_zeros() { zeros_expected_ = true; }

  Dtype acc() const { return accumulator_dtype(dtype); }

  const Size size;
  const Dtype dtype;
  Stream& stream;                    // of the kernels that are tried
  device::InlineStream host_stream;  // of reference kernels that prepare operands, wherever these are

  struct Output {
    Tensor tensor;
    int64_t terms;
    Tensor whole;                   // with the guard bands
    std::vector<std::byte> before;  // bytes of `whole` before the call
    Yardstick yardstick;
  };
  const std::vector<Output>& outputs() const { return outputs_; }
  bool zeros_expected() const { return zeros_expected_; }
  /// Names the first element outside the outputs that was written; empty if there is none.
  std::string written_outside() const;

 private:
  Trial(uint64_t seed, Size size_, Dtype dtype_, std::unique_ptr<device::DeviceContext> own)
      : Trial(seed, size_, dtype_, Device(*own)) {
    own_ = std::move(own);
  }
  Tensor guarded(Shape shape, Dtype type, Layout layout, Tensor* whole);
  Tensor watch(const Tensor& t, const Tensor& whole, int64_t terms, Yardstick yardstick = Yardstick::tensor);
  /// The next normal values, in the shape of `t`.
  kernels::reference::Array drawn(const Tensor& t);

  std::unique_ptr<device::DeviceContext> own_;  // null on a device that others share
  Device device_;
  uint64_t seed_;
  uint64_t drawn_ = 0;
  bool zeros_expected_ = false;
  std::vector<Output> outputs_;
};

/// Empty when the outputs agree; else which one differs first, where, by how much.
std::string difference(const Trial& expected, const Trial& actual);
/// The same, bit for bit.
std::string bitwise_difference(const Trial& expected, const Trial& actual);

}  // namespace hexad::tests
