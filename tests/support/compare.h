// Tensors compared with tensors: a failure prints the coordinate, both values, and a command that repeats the test.
#pragma once

#include <source_location>
#include <string>

#include "framework/tensor/tensor.h"
#include "tests/support/allowed_error.h"
#include "tests/support/on_device.h"

namespace hexad::tests {

/// A result that is mostly zero proves little, so it fails as mistrusted unless the test says that it expects it.
enum class Zeros : uint8_t { mistrusted, expected };

/// Empty when `actual` has the shape and dtype of `expected` and every element lies within `allowed` (relative to the
/// larger of the element and the root mean square of `expected`); else what differs first. NaN equals nothing.
std::string difference(const tensor::Tensor& expected, const tensor::Tensor& actual, double allowed,
                       Zeros zeros = Zeros::mistrusted);
/// The same, bit for bit: NaNs of equal bits are equal.
std::string bitwise_difference(const tensor::Tensor& expected, const tensor::Tensor& actual,
                               Zeros zeros = Zeros::mistrusted);

void expect_close(const tensor::Tensor& expected, const tensor::Tensor& actual, double allowed,
                  Zeros zeros = Zeros::mistrusted, std::source_location where = std::source_location::current());
void expect_bitwise(const tensor::Tensor& expected, const tensor::Tensor& actual, Zeros zeros = Zeros::mistrusted,
                    std::source_location where = std::source_location::current());
/// Every element is exactly zero (and none is NaN).
void expect_zeros(const tensor::Tensor& actual, std::source_location where = std::source_location::current());

/// Elements in row-major order, as doubles. Strides allowed.
std::vector<double> values_of(const tensor::Tensor& t);
/// "[3, 17]": where element `index` (row-major) of a tensor lies.
std::string coordinate(const base::Shape& shape, int64_t index);
/// Adds a failure of the running test with the command that repeats it.
void report(const std::string& failure, std::source_location where);

}  // namespace hexad::tests
