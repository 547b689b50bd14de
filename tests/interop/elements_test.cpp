#include "tools/interop/elements.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tools/interop/mxfp4.h"

namespace hexad::interop {
namespace {

std::vector<std::byte> bytes_of_floats(const std::vector<float>& values) {
  std::vector<std::byte> bytes(4 * values.size());
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(Half, RoundTripThroughF32KeepsEveryFiniteValue) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if ((half & 0x7c00) == 0x7c00) continue;
    ASSERT_EQ(to_half(from_half(half)), half) << bits;
  }
}

TEST(Half, KnownValuesAreExact) {
  EXPECT_EQ(from_half(0x3c00), 1.0f);
  EXPECT_EQ(from_half(0xc000), -2.0f);
  EXPECT_EQ(from_half(0x7bff), 65504.0f);
  EXPECT_EQ(from_half(0x0001), 0x1p-24f);
  EXPECT_EQ(from_half(0x0400), 0x1p-14f);
  EXPECT_TRUE(std::isinf(from_half(0x7c00)));
  EXPECT_TRUE(std::isnan(from_half(0x7e00)));
}

TEST(Half, RoundsToTheNearestEvenValue) {
  EXPECT_EQ(to_half(1.0f + 0x1p-11f), 0x3c00);             // halfway: the even neighbour is below
  EXPECT_EQ(to_half(1.0f + 3 * 0x1p-11f), 0x3c02);         // halfway: the even neighbour is above
  EXPECT_EQ(to_half(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);  // above the middle
  EXPECT_EQ(to_half(65519.0f), 0x7bff);
  EXPECT_EQ(to_half(65520.0f), 0x7c00);   // is rounded to infinity
  EXPECT_EQ(to_half(-0x1p-25f), 0x8000);  // half of the smallest value rounds to zero
  EXPECT_EQ(to_half(0x1.8p-24f), 0x0002);
  EXPECT_EQ(to_half(std::numeric_limits<float>::quiet_NaN()) & 0x7e00, 0x7e00);
}

TEST(Elements, InterleavedRowsBecomeTwoHalvesAndBack) {
  const auto from = bytes_of_floats({0, 1, 10, 11, 20, 21, 30, 31});  // four rows of two elements
  std::vector<std::byte> apart(from.size()), again(from.size());
  separate_interleaved(apart.data(), from.data(), 2, 8);
  EXPECT_EQ(apart, bytes_of_floats({0, 1, 20, 21, 10, 11, 30, 31}));
  interleave(again.data(), apart.data(), 2, 8);
  EXPECT_EQ(again, from);
}

TEST(Mxfp4, ElementsHaveTheValuesOfE2m1) {
  const std::vector<float> expected{0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (uint8_t i = 0; i < 8; ++i) {
    EXPECT_EQ(mxfp4::value_of(i), expected[i]);
    EXPECT_EQ(mxfp4::value_of(static_cast<uint8_t>(i + 8)), -expected[i]);
  }
}

TEST(Mxfp4, BlockIsScaledAndBeginsWithTheLowerBits) {
  std::vector<std::byte> packed(2 * mxfp4::block_bytes, std::byte{0x1f});  // -6, then 0.5
  const std::vector<std::byte> scales{std::byte{127 + 2}, std::byte{0}};
  std::vector<std::byte> narrow(4 * mxfp4::block), wide(8 * mxfp4::block);
  mxfp4::to_bf16(narrow.data(), packed.data(), scales.data(), 2);
  convert(wide.data(), Element::f32, narrow.data(), Element::bf16, 2 * mxfp4::block);
  std::vector<float> expected;
  for (const float scale : {4.0f, 0x1p-127f})
    for (int64_t i = 0; i < mxfp4::block_bytes; ++i) expected.push_back(-6 * scale), expected.push_back(0.5f * scale);
  EXPECT_EQ(wide, bytes_of_floats(expected));
}

TEST(Mxfp4, ScaleOf255IsNotANumber) {
  const std::vector<std::byte> packed(mxfp4::block_bytes, std::byte{0x22}), scales{std::byte{255}};
  std::vector<std::byte> narrow(2 * mxfp4::block);
  mxfp4::to_bf16(narrow.data(), packed.data(), scales.data(), 1);
  EXPECT_EQ(first_non_finite(narrow.data(), Element::bf16, mxfp4::block), 0);
}

TEST(Elements, ConversionToBf16RoundsToNearestEven) {
  const auto from =
      bytes_of_floats({1.0f, 1.00390625f, -3.5f});  // the second value is halfway: the even neighbour is below
  std::vector<std::byte> narrow(6), wide(12);
  convert(narrow.data(), Element::bf16, from.data(), Element::f32, 3);
  convert(wide.data(), Element::f32, narrow.data(), Element::bf16, 3);
  EXPECT_EQ(wide, bytes_of_floats({1.0f, 1.0f, -3.5f}));
}

TEST(Elements, FirstNonFiniteFindsNanAndInfinityInEveryType) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
    const auto wide = bytes_of_floats({1, 2, bad, 4});
    EXPECT_EQ(first_non_finite(wide.data(), Element::f32, 4), 2);
    for (const Element element : {Element::bf16, Element::f16}) {
      std::vector<std::byte> narrow(8);
      convert(narrow.data(), element, wide.data(), Element::f32, 4);
      EXPECT_EQ(first_non_finite(narrow.data(), element, 4), 2);
      EXPECT_EQ(first_non_finite(narrow.data(), element, 2), -1);
    }
  }
}

TEST(Elements, TransposeMovesEveryElement) {
  const int64_t rows = 37, columns = 70;  // several tiles; the last tiles are incomplete
  std::vector<float> matrix(rows * columns), expected(rows * columns), actual(rows * columns);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      matrix[r * columns + c] = static_cast<float>(1000 * r + c);
      expected[c * rows + r] = matrix[r * columns + c];
    }
  transpose(reinterpret_cast<std::byte*>(actual.data()), reinterpret_cast<const std::byte*>(matrix.data()), rows,
            columns, 4);
  EXPECT_EQ(actual, expected);
}

}  // namespace
}  // namespace hexad::interop
