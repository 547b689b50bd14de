// Error messages of the CPU's table.
#include "tests/kernels/edge.h"

namespace hexad::tests {

using namespace base;
using namespace kernels;
namespace {

class CpuErrors : public EdgeTest {};
INSTANTIATE_TEST_SUITE_P(Kernels, CpuErrors, ::testing::Values(Backend{"cpu", &cpu_table, device::DeviceKind::cpu}),
                         [](const auto& p) { return p.param.name; });

TEST_P(CpuErrors, NameTheOperandWithItsShape) {
  try {
    k.rms_norm.forward(stream, empty({2, 4}), {}, empty({2}), empty({2, 4}), {}, empty({3}), 1e-6);
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[rms_norm] gain has shape [3] and strides [1]; expected 4 contiguous elements");
  }
}

TEST_P(CpuErrors, NameTheIndexOutOfRange) {
  try {
    k.embedding.forward(stream, empty({2, 1}), empty({3, 1}), tensor<int32_t>({0, 3}, {2}));
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[embedding] ids[1] is 3; expected a whole number from 0 to 2");
  }
}

TEST_P(CpuErrors, NameARowWrittenTwice) {
  try {
    k.permute.scatter(stream, empty({3, 1}), empty({4, 1}), tensor<int64_t>({-1, 2, -1, 2}, {4}));
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[scatter] index[3] is 2 for the second time; expected distinct rows");
  }
}

TEST_P(CpuErrors, NameTheEmptyOperandsOfTheDeltaRule) {
  const auto message = [&](int64_t groups, int64_t sequences) -> std::string {
    const Tensor q = empty({4, groups, 2}), v = empty({4, 2, 3}), gates = empty({4, 2});
    try {
      k.delta_rule.forward(stream, empty({4, 2, 3}), empty({2, 2, 2, 3}), {q, q, v, gates, gates}, {sequences, 0});
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "no error";
  };
  const std::string expected =
      "; expected q and k [T, G, C], v [T, H, U], H a multiple of G, G > 0, at least one sequence, and T a "
      "multiple of the number of sequences";
  EXPECT_EQ(message(0, 2), cat("[delta_rule] q is [4, 0, 2], k [4, 0, 2], v [4, 2, 3], with 2 sequences", expected));
  EXPECT_EQ(message(1, 0), cat("[delta_rule] q is [4, 1, 2], k [4, 1, 2], v [4, 2, 3], with 0 sequences", expected));
}

TEST_P(CpuErrors, NameAConvolutionOfNoSequences) {
  try {
    k.causal_conv.forward(stream, empty({4, 2}), {empty({4, 2}), empty({2, 3})}, {0, 0});
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(),
                 "[causal_conv] x is [4, 2], weight [2, 3], with 0 sequences; expected [T, N] and [N, W], at least one "
                 "sequence, and T a multiple of the number of sequences");
  }
}

TEST_P(CpuErrors, NameAConvolutionOfRowsWithoutColumns) {
  const auto message = [&](const Shape& x, const Shape& weight) -> std::string {
    try {
      k.causal_conv.forward(stream, empty({4, 2}), {empty(x), empty(weight)}, {1, 0});
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "no error";
  };
  const std::string expected =
      ", with 1 sequences; expected [T, N] and [N, W], at least one sequence, and T a multiple of the number of "
      "sequences";
  EXPECT_EQ(message({4}, {2, 3}), cat("[causal_conv] x is [4], weight [2, 3]", expected));
  EXPECT_EQ(message({4, 2}, {2}), cat("[causal_conv] x is [4, 2], weight [2]", expected));
}

TEST_P(CpuErrors, NameTheUnsupportedDtype) {
  try {
    k.rms_norm.forward(stream, empty({2, 4}), {}, empty({2}), empty({2, 4}, Dtype::i32), {}, empty({4}), 1e-6);
    FAIL();
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[rms_norm] does not support i32; supported: f32, bf16, f64");
  }
}

}  // namespace
}  // namespace hexad::tests
