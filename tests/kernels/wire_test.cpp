// Rows in wire formats: layout, error bounds, and rows with NaN or infinity, which must remain recognisable. Tests of
// error messages call only the CPU's table. All other tests of kernels in this file also call the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "framework/base/fp8.h"
#include "framework/base/philox.h"
#include "framework/base/tolerance.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::tests {

using namespace base;
using namespace tensor;
namespace {

using namespace kernels;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();
constexpr double least_float = std::numeric_limits<float>::denorm_min();
using Floats = std::vector<float>;
using Bytes = std::vector<uint8_t>;

TEST(WireLayout, AlignsEveryPartAndPadsRowsToEightBytes) {
  const auto of = [](WireFormat format, Dtype dtype, int64_t width, int64_t row_weights) {
    const WireLayout l = wire_layout(format, dtype, width, row_weights);
    return std::array{l.values, l.scale, l.row_weights, l.bytes};
  };
  using A = std::array<int64_t, 4>;
  EXPECT_EQ(of(WireFormat::model, Dtype::bf16, 7, 0), (A{14, 14, 16, 16}));
  EXPECT_EQ(of(WireFormat::model, Dtype::bf16, 8, 0), (A{16, 16, 16, 16}));
  EXPECT_EQ(of(WireFormat::model, Dtype::bf16, 1, 1), (A{2, 2, 4, 8}));
  EXPECT_EQ(of(WireFormat::model, Dtype::f32, 65, 2), (A{260, 260, 260, 272}));
  EXPECT_EQ(of(WireFormat::model, Dtype::f64, 3, 2), (A{24, 24, 24, 40}));
  EXPECT_EQ(of(WireFormat::fp8, Dtype::bf16, 1, 0), (A{1, 4, 8, 8}));
  EXPECT_EQ(of(WireFormat::fp8, Dtype::f32, 512, 1), (A{512, 512, 516, 520}));
  EXPECT_EQ(of(WireFormat::fp8, Dtype::f64, 65, 1), (A{65, 68, 72, 80}));
}

class Wire : public ::testing::TestWithParam<const KernelTable*> {
 protected:
  const KernelTable& k = *GetParam();
  device::DeviceContext context;
  Device device{context};
  device::InlineStream stream;

  template <class T>
  Tensor tensor(const std::vector<T>& values, Shape shape) {
    return Tensor::from<T>(values, shape, device);
  }
  Tensor filled(Shape shape, float value) { return tensor(Floats(shape.numel(), value), shape); }

  Tensor packed(const Tensor& x, WireFormat format, const Tensor& index = {}, const Tensor& row_weights = {}) {
    const int64_t rows = index.defined() ? index.numel() : x.dim(0);
    const int64_t row = wire_row_bytes(format, x.dtype(), x.dim(1), row_weights.defined() ? row_weights.dim(1) : 0);
    const Tensor bytes = Tensor::empty({rows, row}, Dtype::u8, device);
    k.wire.pack(stream, bytes, x, index, row_weights, format);
    return bytes;
  }
  Floats there_and_back(const Floats& row, WireFormat format = WireFormat::fp8) {
    const Tensor x = tensor(row, {1, static_cast<int64_t>(row.size())}), out = Tensor::like(x);
    k.wire.unpack(stream, out, {}, packed(x, format), {}, format);
    return out.to_vector<float>();
  }
};

TEST_P(Wire, Fp8RowIsCodesScaleAndRowWeights) {
  const Bytes bytes =
      packed(tensor<float>({896, -1, 0.5f, 0, 448}, {1, 5}), WireFormat::fp8, {}, tensor<float>({1.5f}, {1, 1}))
          .to_vector<uint8_t>();
  // The scale is 2. The codes are 448, -0.5, 0.25, 0 and 224. Three zeros, 2.0f and 1.5f follow.
  EXPECT_EQ(bytes, (Bytes{0x7e, 0xb0, 0x28, 0x00, 0x76, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0xc0, 0x3f}));
}

TEST_P(Wire, LargestElementOfARowKeepsItsF32Precision) {
  for (float largest : {1.0f, 3.14159f, -7e-5f, 1e30f, -std::numeric_limits<float>::max()}) {
    const float back = there_and_back({largest, largest / 100})[0];
    EXPECT_NEAR(back / largest, 1, tolerance(Dtype::f32, 1)) << largest;
  }
}

// Each row has 64 magnitudes in 40 binades. The highest binade of a row ranges from the binade of the smallest
// subnormal float to the binade of the largest float.
TEST_P(Wire, Fp8KeepsTheStatedErrorBound) {
  const Philox random(20240611, Purpose::synthetic);
  uint64_t drawn = 0;
  double worst = 0;
  for (int top = -149; top < 128; ++top) {
    Floats row;
    for (int i = 0; i < 64; ++i) {
      const int exponent = top - (i ? static_cast<int>(random.below(drawn++, 40)) : 0);
      const double magnitude = std::ldexp(1 + random.uniform_double(drawn++), exponent);
      row.push_back(static_cast<float>(std::min(magnitude, double{std::numeric_limits<float>::max()})) *
                    (random.below(drawn++, 2) ? 1 : -1));
    }
    const Floats back = there_and_back(row);
    double largest = 0;
    for (float v : row) largest = std::max(largest, double{std::abs(v)});
    const double scale = std::max(largest / e4m3::largest, double{std::numeric_limits<float>::min()});
    for (size_t i = 0; i < row.size(); ++i) {
      const double magnitude = std::abs(double{row[i]}), error = std::abs(double{back[i]} - double{row[i]});
      const double bound = std::max(e4m3::relative_error * magnitude, e4m3::absolute_error * scale) +
                           2 * unit_roundoff(Dtype::f32) * magnitude + least_float;
      ASSERT_LE(error, bound) << row[i] << " in a row whose largest magnitude is " << largest;
      worst = std::max(worst, error / bound);
    }
  }
  EXPECT_GT(worst, 0.9);  // the bound is tight
}

TEST_P(Wire, RowOfZerosHasScaleZeroAndIsUnpackedUnchanged) {
  const Bytes bytes = packed(tensor<float>({0, -0.0f, 0, 0}, {1, 4}), WireFormat::fp8).to_vector<uint8_t>();
  EXPECT_EQ(bytes, (Bytes{0, 0x80, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(there_and_back({0, 0, 0}), (Floats{0, 0, 0}));
}

TEST_P(Wire, NonFiniteElementPoisonsOnlyItsRow) {
  for (float bad : {nan, -nan, inf, -inf}) {
    Floats values(3 * 65, 2.0f);
    values[65 + 40] = bad;
    const Tensor x = tensor(values, {3, 65}), out = filled({3, 65}, 0), bytes = packed(x, WireFormat::fp8);
    k.wire.unpack(stream, out, {}, bytes, {}, WireFormat::fp8);
    const Floats back = out.to_vector<float>();
    for (size_t i = 0; i < back.size(); ++i)
      if (i / 65 == 1)
        EXPECT_TRUE(std::isnan(back[i])) << bad << " at " << i;
      else
        EXPECT_EQ(back[i], 2.0f) << bad << " at " << i;
    for (int64_t i = 0; i < 65; ++i) EXPECT_EQ(bytes.slice(0, 1, 2).data<uint8_t>()[i], e4m3::nan);
  }
}

TEST_P(Wire, F64BeyondFloatsIsNotFinite) {
  const Tensor x = tensor<double>({1, 1e300}, {1, 2}), out = Tensor::like(x);
  k.wire.unpack(stream, out, {}, packed(x, WireFormat::fp8), {}, WireFormat::fp8);
  for (double v : out.to_vector<double>()) EXPECT_TRUE(std::isnan(v));
}

TEST_P(Wire, ModelsFormatKeepsEveryBit) {
  const Floats row{std::bit_cast<float>(0x7f800001u), -nan, inf, -0.0f, std::bit_cast<float>(1u), 1 / 3.0f};
  const Floats back = there_and_back(row, WireFormat::model);
  for (size_t i = 0; i < row.size(); ++i)
    EXPECT_EQ(std::bit_cast<uint32_t>(back[i]), std::bit_cast<uint32_t>(row[i])) << i;
}

TEST_P(Wire, RowsWithoutASourceAreZeroAndRowsWithoutATargetAreNotCopied) {
  for (const WireFormat format : {WireFormat::model, WireFormat::fp8}) {
    const Tensor none = tensor<int64_t>({1, -1}, {2}), out = filled({2, 3}, 7);
    const Tensor bytes = packed(filled({2, 3}, 1), format, none);
    k.wire.unpack(stream, out, {}, bytes, {}, format);
    EXPECT_EQ(out.to_vector<float>(), (Floats{1, 1, 1, 0, 0, 0}));
    k.wire.unpack(stream, out, {}, packed(filled({2, 3}, 5), format), none, format);
    EXPECT_EQ(out.to_vector<float>(), (Floats{1, 1, 1, 5, 5, 5}));
  }
}

TEST_P(Wire, RowWeightsBelongToThePositionNotTheRow) {
  for (WireFormat format : {WireFormat::model, WireFormat::fp8}) {
    const Tensor x = tensor<float>({448, 896}, {2, 1}),
                 row_weights = tensor<float>({0.1f, 0.2f, nan, 0.4f, 5, 6}, {3, 2});
    const Tensor bytes = packed(x, format, tensor<int64_t>({1, 0, 1}, {3}), row_weights);
    const Tensor out = filled({4, 1}, -1), row_weights_out = filled({3, 2}, 0);
    k.wire.unpack(stream, out, row_weights_out, bytes, tensor<int64_t>({3, 0, 1}, {3}), format);
    EXPECT_EQ(out.to_vector<float>(), (Floats{448, 896, -1, 896}));
    Floats back = row_weights_out.to_vector<float>();
    EXPECT_TRUE(std::isnan(back[2]));
    back[2] = 3;
    EXPECT_EQ(back, (Floats{0.1f, 0.2f, 3, 0.4f, 5, 6}));
  }
}

TEST_P(Wire, RowWeightsOfF64RowsAreF64) {
  const Tensor x = tensor<double>({1, 2, 3}, {1, 3}), row_weights = tensor<double>({0.1}, {1, 1});
  for (WireFormat format : {WireFormat::model, WireFormat::fp8}) {
    const Tensor row_weights_out = Tensor::like(row_weights), out = Tensor::like(x);
    k.wire.unpack(stream, out, row_weights_out, packed(x, format, {}, row_weights), {}, format);
    EXPECT_EQ(row_weights_out.to_vector<double>(), (std::vector<double>{0.1}));
  }
}

TEST_P(Wire, RowsMayContainUnrequestedRowWeights) {
  for (WireFormat format : {WireFormat::model, WireFormat::fp8}) {
    const Tensor bytes = packed(tensor<float>({448, 224}, {2, 1}), format, {}, filled({2, 5}, nan));
    const Tensor out = filled({2, 1}, 0);
    k.wire.unpack(stream, out, {}, bytes, {}, format);
    EXPECT_EQ(out.to_vector<float>(), (Floats{448, 224}));
  }
}

TEST_P(Wire, AcceptsZeroRows) {
  for (WireFormat format : {WireFormat::model, WireFormat::fp8}) {
    const Tensor none = tensor<int64_t>({}, {0}), out = filled({2, 3}, 7);
    k.wire.unpack(stream, out, {}, packed(filled({2, 3}, nan), format, none), none, format);
    EXPECT_EQ(out.to_vector<float>(), Floats(6, 7));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Wire, ::testing::Values(&cpu_table, &reference_table),
                         [](const auto& p) { return p.param == &cpu_table ? "cpu" : "reference"; });

// Error messages of the CPU's table.
class WireErrors : public Wire {
 protected:
  template <class F>
  void expect_refused(const std::string& message, const F& f) {
    try {
      f();
      FAIL() << "no error was thrown";
    } catch (const std::logic_error& e) {
      EXPECT_EQ(e.what(), message);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Kernels, WireErrors, ::testing::Values(&cpu_table), [](const auto&) { return "cpu"; });

TEST_P(WireErrors, NameBytesOfAnotherFormat) {
  const Tensor x = filled({2, 9}, 1), bytes = packed(x, WireFormat::fp8);
  expect_refused("[pack] bytes has shape [2, 16]; expected [2, 40]",
                 [&] { k.wire.pack(stream, bytes, x, {}, {}, WireFormat::model); });
  expect_refused("[unpack] bytes has shape [2, 16] and strides [16, 1]; expected 2 contiguous rows of 40 bytes or more",
                 [&] { k.wire.unpack(stream, x, {}, bytes, {}, WireFormat::model); });
}

TEST_P(WireErrors, NameARowWrittenTwice) {
  const Tensor x = filled({2, 3}, 1), index = tensor<int64_t>({4, 4}, {2}), out = filled({5, 3}, 0);
  const auto bytes = packed(x, WireFormat::fp8);
  expect_refused("[unpack] index[1] is 4 for the second time; expected distinct rows",
                 [&] { k.wire.unpack(stream, out, {}, bytes, index, WireFormat::fp8); });
  expect_refused("[scatter] index[1] is 4 for the second time; expected distinct rows",
                 [&] { k.permute.scatter(stream, out, x, index); });
}

TEST_P(WireErrors, NameTheIndexOutOfRange) {
  const Tensor x = filled({2, 3}, 1), index = tensor<int64_t>({0, 2}, {2});
  expect_refused("[pack] index[1] is 2; expected a whole number from -1 to 1",
                 [&] { packed(x, WireFormat::fp8, index); });
}

}  // namespace
}  // namespace hexad::tests
