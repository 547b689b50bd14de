// Comparison of tensors. The message of a failed expectation ends with the --gtest_filter option that repeats the test.
#pragma once

#include <source_location>
#include <string>

#include "framework/base/tolerance.h"
#include "framework/tensor/tensor.h"
#include "tests/support/on_device.h"

namespace hexad::tests {

/// Treatment of a floating-point result that is mostly zero: it has at least four elements, and more than half of them
/// are zero. Such a result proves little, so it is a failure if the test does not expect zeros.
enum class Zeros : uint8_t { mistrusted, expected };

/// Returns a description of the first difference, or an empty text. Different shapes and dtypes are differences. An
/// element may differ by at most `allowed` times its expected magnitude or the root mean square of `expected`,
/// whichever is larger. A NaN differs from every value, including NaN.
std::string difference(const tensor::Tensor& expected, const tensor::Tensor& actual, double allowed,
                       Zeros zeros = Zeros::mistrusted);
/// Like difference(), but compares bits. NaNs with equal bits are equal.
std::string bitwise_difference(const tensor::Tensor& expected, const tensor::Tensor& actual,
                               Zeros zeros = Zeros::mistrusted);

void expect_close(const tensor::Tensor& expected, const tensor::Tensor& actual, double allowed,
                  Zeros zeros = Zeros::mistrusted, std::source_location where = std::source_location::current());
void expect_bitwise(const tensor::Tensor& expected, const tensor::Tensor& actual, Zeros zeros = Zeros::mistrusted,
                    std::source_location where = std::source_location::current());
/// Expects every element to be exactly zero (and none to be NaN).
void expect_zeros(const tensor::Tensor& actual, std::source_location where = std::source_location::current());

/// Returns the elements in row-major order, as doubles. `t` may be strided.
std::vector<double> values_of(const tensor::Tensor& t);
/// Returns the coordinate of element `index` (row-major) of a tensor, like "[3, 17]".
std::string coordinate(const base::Shape& shape, int64_t index);
/// Adds `failure` to the running test, with the --gtest_filter option that repeats the test. Does nothing if `failure`
/// is empty.
void report(const std::string& failure, std::source_location where);

}  // namespace hexad::tests
