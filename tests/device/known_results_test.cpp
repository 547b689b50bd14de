// Reuse of results of computations on known values, and cases in which these results are computed again.
#include "framework/device/meta/known_results.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

namespace hexad::device {
namespace {

using Bytes = std::array<std::byte, 4>;

constexpr Bytes bytes(int first) {
  return {std::byte(first), std::byte(first + 1), std::byte(first + 2), std::byte(first + 3)};
}

// Writes the operand in reverse order to `result`, which may be the operand.
void write_reversed(KnownResults& results, Bytes& operand, Bytes& result, int64_t number = 0,
                    std::string_view kernel = "reverse") {
  const std::span<std::byte> out(result);
  results.write({kernel, {number}, operand}, {&out, 1}, [&] {
    const Bytes values = operand;
    std::ranges::reverse_copy(values, result.begin());
  });
}

Bytes reversed(Bytes values) {
  std::ranges::reverse(values);
  return values;
}

TEST(KnownResults, AreCopiedForAnEqualComputation) {
  KnownResults results;
  Bytes operand = bytes(1), first{}, second{};
  write_reversed(results, operand, first), write_reversed(results, operand, second);
  EXPECT_EQ(first, reversed(operand));
  EXPECT_EQ(second, first);
  EXPECT_EQ(results.computed(), 1);
}

TEST(KnownResults, AreComputedForAnotherKernelNumberOrOperand) {
  KnownResults results;
  Bytes one = bytes(1), other = bytes(2), result{};
  write_reversed(results, one, result);
  write_reversed(results, one, result, 0, "other"), write_reversed(results, one, result, 1),
      write_reversed(results, other, result);
  EXPECT_EQ(result, reversed(other));
  EXPECT_EQ(results.computed(), 4);
}

TEST(KnownResults, AreFoundAmongManyComputations) {
  KnownResults results;
  std::vector<Bytes> operands;
  for (int first = 0; first < 40; ++first) operands.push_back(bytes(first));
  for (int times = 0; times < 2; ++times)
    for (Bytes& operand : operands)
      for (int64_t number = 0; number < 5; ++number) {
        Bytes result{};
        write_reversed(results, operand, result, number);
        EXPECT_EQ(result, reversed(operand)) << "number " << number;
      }
  EXPECT_EQ(results.computed(), 200);
}

TEST(KnownResults, ResultMayReplaceItsOperand) {
  KnownResults results;
  Bytes values = bytes(1);
  write_reversed(results, values, values);
  EXPECT_EQ(values, reversed(bytes(1)));
  write_reversed(results, values, values);
  EXPECT_EQ(values, bytes(1));
  EXPECT_EQ(results.computed(), 2) << "the second operand differs from the first";
  write_reversed(results, values, values);
  EXPECT_EQ(values, reversed(bytes(1)));
  EXPECT_EQ(results.computed(), 2);
}

TEST(KnownResults, AreForgottenBeyondTheLimitOldestFirst) {
  KnownResults results(2 * 8);  // limit in bytes: two operands and two results
  Bytes one = bytes(1), two = bytes(2), three = bytes(3), result{};
  for (Bytes* operand : {&one, &two, &three}) write_reversed(results, *operand, result);
  write_reversed(results, two, result), write_reversed(results, three, result);
  EXPECT_EQ(results.computed(), 3);
  write_reversed(results, one, result);
  EXPECT_EQ(result, reversed(one));
  EXPECT_EQ(results.computed(), 4);
}

TEST(KnownResults, ResultsAboveTheLimitAreNotKept) {
  KnownResults results(7);
  Bytes operand = bytes(1), result{};
  write_reversed(results, operand, result), write_reversed(results, operand, result);
  EXPECT_EQ(result, reversed(operand));
  EXPECT_EQ(results.computed(), 2);
}

TEST(KnownResults, FailedComputationsAreNotKept) {
  KnownResults results;
  Bytes operand = bytes(1), result{};
  const std::span<std::byte> out(result);
  EXPECT_THROW(results.write({"reverse", {0}, operand}, {&out, 1}, [] { throw std::runtime_error("fails"); }),
               std::runtime_error);
  write_reversed(results, operand, result);
  EXPECT_EQ(result, reversed(operand));
}

}  // namespace
}  // namespace hexad::device
