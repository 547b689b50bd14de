// Comparison of tensors. A failure prints the coordinate, both values, and a command that repeats the test.
#pragma once

#include <source_location>
#include <string>

#include "framework/base/tolerance.h"
#include "framework/tensor/tensor.h"
#include "tests/support/on_device.h"

namespace hexad::tests {

/// Treatment of a result that is mostly zero. Such a result proves little, so it fails unless the test expects zeros.
enum class Zeros : uint8_t { mistrusted, expected };

/// Returns the first difference, or an empty text. `actual` must have the shape and dtype of `expected`. Every element
/// must be within `allowed`, relative to the larger of the element and the root mean square of `expected`. NaN equals
/// nothing.
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

/// Returns the elements in row-major order, as doubles. Strides are allowed.
std::vector<double> values_of(const tensor::Tensor& t);
/// Returns the coordinate of element `index` (row-major) of a tensor, like "[3, 17]".
std::string coordinate(const base::Shape& shape, int64_t index);
/// Adds a failure to the running test, with the command that repeats it.
void report(const std::string& failure, std::source_location where);

}  // namespace hexad::tests
