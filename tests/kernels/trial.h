// Operands of the kernel calls in a test: repeatable inputs, and outputs between guard bands.
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

/// Number of tokens T (rows) and features D of the operands.
struct Size {
  int64_t rows, width;
};

/// Layout of rows. `aligned_rows` are strided rows that begin at multiples of 16 bytes if their width is a multiple of
/// 8 elements.
enum class Layout : uint8_t { contiguous, strided_rows, aligned_rows };

/// Least magnitude relative to which the error of an element is measured. The magnitude of the element itself may be
/// too small because of cancellation. In tensors of fewer than 16 elements, the least magnitude is at least one.
///   - tensor: the root mean square of the tensor
///   - row: the root mean square of the tensor or of the element's row (the whole last dimension), whichever is larger.
///     This yardstick is for rows whose sums have addends of different sizes.
enum class Yardstick : uint8_t { tensor, row };

/// Inputs and outputs of the kernel calls in a test body. Two trials with the same seed, size and dtype give equal
/// inputs if their functions are called in the same order. Therefore, a test body can run with two tables, on one
/// device or on two devices.
class Trial {
 public:
  /// Makes a trial on the host.
  Trial(uint64_t seed, Size size_, Dtype dtype_)
      : Trial(seed, size_, dtype_, std::make_unique<device::DeviceContext>()) {}
  /// Makes a trial on `device`, whose context must outlive the trial.
  Trial(uint64_t seed, Size size_, Dtype dtype_, Device device)
      : size(size_), dtype(dtype_), stream(device.context().compute()), device_(device), seed_(seed) {}

  /// Returns a tensor of random values with a standard normal distribution.
  Tensor normal(Shape shape, Dtype type, Layout layout = Layout::contiguous);
  Tensor normal(Shape shape, Layout layout = Layout::contiguous) { return normal(shape, dtype, layout); }
  /// Returns uniform integers in [0, bound).
  Tensor integers(Shape shape, Dtype type, int64_t bound);
  template <class T>
  Tensor values(const std::vector<T>& v, Shape shape) {
    return Tensor::from<T>(v, shape, device_);
  }

  /// Returns an output that starts poisoned (see poison() in trial.cpp) and is compared after the body. `terms` is the
  /// length of the longest sum in an element, for the tolerance.
  Tensor output(Shape shape, Dtype type, int64_t terms = 1, Layout layout = Layout::contiguous,
                Yardstick yardstick = Yardstick::tensor);
  Tensor output(Shape shape, int64_t terms = 1, Layout layout = Layout::contiguous) {
    return output(shape, dtype, terms, layout);
  }
  /// Returns an output for kernels that add or work in place. The output starts with standard normal values and is
  /// compared after the body.
  Tensor update(Shape shape, Dtype type, int64_t terms = 1);
  /// Returns uninitialised memory that is not compared, for example for values that forward keeps for backward.
  Tensor scratch(Shape shape, Dtype type) { return Tensor::empty(shape, type, device_); }
  /// Permits floating outputs in which more than half of the elements are zero. Without this call, difference() reports
  /// such outputs if they have more than four elements.
  void expect_zeros() { zeros_expected_ = true; }

  Dtype acc() const { return accumulator_dtype(dtype); }

  const Size size;
  const Dtype dtype;
  Stream& stream;                    // stream of the tested kernels
  device::InlineStream host_stream;  // stream of reference kernels that prepare operands on any device

  struct Output {
    Tensor tensor;
    int64_t terms;
    Tensor whole;                   // the tensor with its guard bands
    std::vector<std::byte> before;  // bytes of `whole` when the output was made
    Yardstick yardstick;
  };
  const std::vector<Output>& outputs() const { return outputs_; }
  bool zeros_expected() const { return zeros_expected_; }
  /// Returns a description of the first element outside the outputs that has changed; empty if there is none.
  std::string written_outside() const;

 private:
  Trial(uint64_t seed, Size size_, Dtype dtype_, std::unique_ptr<device::DeviceContext> own)
      : Trial(seed, size_, dtype_, Device(*own)) {
    own_ = std::move(own);
  }
  Tensor guarded(Shape shape, Dtype type, Layout layout, Tensor* whole);
  Tensor watch(const Tensor& t, const Tensor& whole, int64_t terms, Yardstick yardstick = Yardstick::tensor);
  /// Returns random values with a standard normal distribution, in the shape of `t`.
  kernels::reference::Array drawn(const Tensor& t);

  std::unique_ptr<device::DeviceContext> own_;  // null on a shared device
  Device device_;
  uint64_t seed_;
  uint64_t drawn_ = 0;
  bool zeros_expected_ = false;
  std::vector<Output> outputs_;
};

/// Returns a description of the first fault of `actual`; empty if there is none. Faults are a write outside the
/// outputs, an element that differs by more than the tolerance, and an output of mostly zeros.
std::string difference(const Trial& expected, const Trial& actual);
/// Returns a description of the first byte that differs in the outputs or their guard bands; empty if all are equal.
std::string bitwise_difference(const Trial& expected, const Trial& actual);

}  // namespace hexad::tests
