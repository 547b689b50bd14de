// Compares every entry of the CUDA table with the reference, for several dtypes, odd sizes, and the sizes of fast
// paths.
#include <gtest/gtest.h>

#include "framework/kernels/cuda/launches.h"
#include "tests/gpu/aligned_cases.h"
#include "tests/gpu/card.h"

namespace hexad::tests {

using namespace base;
using namespace kernels;
namespace {

constexpr uint64_t seed = 20240611;

void expect_parity(const Case& c, Dtype dtype, const Size& size) {
  SCOPED_TRACE(cat("seed ", seed, ", rows ", size.rows, ", width ", size.width));
  Trial expected(seed, size, dtype), actual(seed, size, dtype, card());
  c.body(reference_table, expected);
  c.body(cuda_kernels(), actual);
  EXPECT_EQ(difference(expected, actual), "");
}

// Returns the CUDA table, but with deterministic backward attention, so that all results are bitwise identical in every
// call.
const KernelTable& repeatable_kernels() {
  static const KernelTable table = [] {
    KernelTable t = cuda_kernels();
    t.attention.backward = [](Stream& stream, const AttentionGradients& gradients, const Tensor& dout,
                              const AttentionSaved& saved, const AttentionShape& asked) {
      AttentionShape shape = asked;
      shape.deterministic = true;
      cuda_kernels().attention.backward(stream, gradients, dout, saved, shape);
    };
    return t;
  }();
  return table;
}

void expect_the_same_bits_twice(const Case& c, Dtype dtype, const Size& size) {
  SCOPED_TRACE(cat("seed ", seed, ", rows ", size.rows, ", width ", size.width));
  Trial once(seed, size, dtype, card()), again(seed, size, dtype, card());
  c.body(repeatable_kernels(), once);
  c.body(repeatable_kernels(), again);
  EXPECT_EQ(bitwise_difference(once, again), "");
}

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<Case, Dtype>>& p) {
  return cat(std::get<Case>(p.param).name, "_", std::get<Dtype>(p.param));
}

TEST(CudaTable, HasNoHoles) { EXPECT_EQ(holes_of(kernels::cuda::launches()), ""); }

// Runs the case files of tests/kernels.
class CudaParity : public ::testing::TestWithParam<std::tuple<Case, Dtype>> {};

TEST_P(CudaParity, CudaEqualsReference) {
  const auto& [c, dtype] = GetParam();
  for (const auto& all : {sizes(), aligned_sizes()})
    for (const Size& size : all) expect_parity(c, dtype, size);
}

TEST_P(CudaParity, RepeatedRunsAreBitwiseIdentical) {
  const auto& [c, dtype] = GetParam();
  for (const Size& size : {Size{263, 257}, Size{520, 1024}}) expect_the_same_bits_twice(c, dtype, size);
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaParity, ::testing::ValuesIn(in_their_dtypes(all_cases())), name_of_case);

class CudaAlignedParity : public ::testing::TestWithParam<std::tuple<Case, Dtype>> {};

TEST_P(CudaAlignedParity, CudaEqualsReference) {
  const auto& [c, dtype] = GetParam();
  expect_parity(c, dtype, {1, 1});
}

TEST_P(CudaAlignedParity, RepeatedRunsAreBitwiseIdentical) {
  const auto& [c, dtype] = GetParam();
  expect_the_same_bits_twice(c, dtype, {1, 1});
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaAlignedParity, ::testing::ValuesIn(in_their_dtypes(aligned_cases())),
                         name_of_case);

}  // namespace
}  // namespace hexad::tests
