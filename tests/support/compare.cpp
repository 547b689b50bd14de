#include "tests/support/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace hexad::tests {

using namespace base;
namespace {

using namespace tensor;

std::string different_kind(const Tensor& expected, const Tensor& actual) {
  if (!expected.defined() || !actual.defined())
    return expected.defined() == actual.defined() ? "" : cat(actual.defined() ? "expected" : "got", " no tensor");
  if (expected.shape() == actual.shape() && expected.dtype() == actual.dtype()) return {};
  return cat("expected ", expected.shape(), " ", expected.dtype(), ", got ", actual.shape(), " ", actual.dtype());
}

std::string mistrust(const Tensor& t, const std::vector<double>& values, Zeros zeros) {
  if (zeros == Zeros::expected || !is_floating(t.dtype()) || values.size() < 4) return {};
  const auto count = std::count(values.begin(), values.end(), 0.0);
  if (2 * count <= static_cast<int64_t>(values.size())) return {};
  return cat(t.shape(), " is mistrusted: ", count, " of ", values.size(),
             " elements are zero; expected at most half, or Zeros::expected");
}

}  // namespace

std::vector<double> values_of(const Tensor& given) {
  const Tensor t = to_host(given);
  std::vector<double> values(t.numel());
  with_dtype<float, bf16, double, int32_t, int64_t, uint8_t>("compare", t.dtype(), [&]<class T>() {
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(t.data<T>()[i]);
  });
  return values;
}

std::string coordinate(const Shape& shape, int64_t index) {
  Shape c = shape;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    c[d] = index % shape[d];
    index /= shape[d];
  }
  return c.to_string();
}

std::string difference(const Tensor& expected, const Tensor& actual, double allowed, Zeros zeros) {
  if (std::string kind = different_kind(expected, actual); !kind.empty() || !expected.defined()) return kind;
  const auto want = values_of(expected), got = values_of(actual);
  double squares = 0;
  for (double v : want) squares += v * v;
  const double typical = want.empty() ? 0 : std::sqrt(squares / static_cast<double>(want.size()));
  int64_t wrong = 0, first = -1;
  for (size_t i = 0; i < want.size(); ++i) {
    const bool close = std::abs(want[i] - got[i]) <= allowed * std::max(std::abs(want[i]), typical);
    if (!close && wrong++ == 0) first = static_cast<int64_t>(i);
  }
  if (wrong) {
    const size_t f = first;
    return cat(expected.shape(), " ", expected.dtype(), ": ", wrong, " of ", want.size(), " elements differ; first at ",
               coordinate(expected.shape(), first), ": expected ", want[f], ", got ", got[f], "; the difference is ",
               std::abs(want[f] - got[f]), ", expected at most ", allowed * std::max(std::abs(want[f]), typical));
  }
  return mistrust(actual, got, zeros);
}

std::string bitwise_difference(const Tensor& expected, const Tensor& actual, Zeros zeros) {
  if (std::string kind = different_kind(expected, actual); !kind.empty() || !expected.defined()) return kind;
  const Tensor a = to_host(expected), b = to_host(actual);
  const size_t size = size_of(expected.dtype());
  const auto want = values_of(a), got = values_of(b);
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::memcmp(static_cast<const std::byte*>(a.raw()) + i * size,
                    static_cast<const std::byte*>(b.raw()) + i * size, size) != 0)
      return cat(expected.shape(), " ", expected.dtype(), " differs in its bits at ",
                 coordinate(expected.shape(), static_cast<int64_t>(i)), ": expected ", want[i], ", got ", got[i]);
  }
  return mistrust(actual, got, zeros);
}

void report(const std::string& failure, std::source_location where) {
  if (failure.empty()) return;
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line()))
      << failure << "\nrepeat with --gtest_filter=" << test->test_suite_name() << "." << test->name();
}

void expect_close(const Tensor& expected, const Tensor& actual, double allowed, Zeros zeros,
                  std::source_location where) {
  report(difference(expected, actual, allowed, zeros), where);
}

void expect_bitwise(const Tensor& expected, const Tensor& actual, Zeros zeros, std::source_location where) {
  report(bitwise_difference(expected, actual, zeros), where);
}

void expect_zeros(const Tensor& actual, std::source_location where) {
  const auto values = values_of(actual);
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] != 0)
      return report(cat(actual.shape(), " at ", coordinate(actual.shape(), static_cast<int64_t>(i)),
                        ": expected 0, got ", values[i]),
                    where);
}

}  // namespace hexad::tests
