// Kernels on cards that permit only 99 KiB of shared memory per block (compute capability 8.6, 8.9 and 12.0).
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/kernels/cuda/launch_sizes.h"
#include "tests/kernels/cases.h"
#include "tests/support/cuda_double/device.h"

namespace hexad::tests {

using namespace base;
using namespace kernels;
namespace {

class SmallSharedMemory : public ::testing::Test {
 protected:
  void expect_parity(const Case& c, Dtype dtype, const Size& size) {
    SCOPED_TRACE(cat(c.name, " in ", dtype, ", rows ", size.rows, ", width ", size.width));
    constexpr uint64_t seed = 20240611;
    Trial expected(seed, size, dtype), actual(seed, size, dtype, context_);
    c.body(reference_table, expected);
    ASSERT_NO_THROW(c.body(cuda_kernels(), actual));
    EXPECT_EQ(difference(expected, actual), "");
  }

 private:
  const cuda_double::SharedMemoryLimit limit_{kernels::cuda::common_shared_memory};
  device::DeviceContext context_{{.kind = device::DeviceKind::cuda}};
};

// On these cards, the kernel whose blocks hold whole rows supports up to 24576 f32 logits or 32768 bf16 logits per row.
// Another kernel computes longer rows.
TEST_F(SmallSharedMemory, SufficesForCrossEntropyOfRowsOfEveryLength) {
  const std::vector<Case> cases = loss_cases();
  const auto expect_all = [&](std::string_view name, Dtype dtype, std::initializer_list<int64_t> vocabularies) {
    const auto cross_entropy = std::ranges::find(cases, name, &Case::name);
    ASSERT_NE(cross_entropy, cases.end()) << name;
    for (const int64_t vocabulary : vocabularies) expect_parity(*cross_entropy, dtype, {3, vocabulary});
  };
  expect_all("cross_entropy", Dtype::f32, {1000, 24576, 24580, 32768});
  expect_all("cross_entropy_of_bf16_logits", Dtype::bf16, {1000, 24584, 32768, 32776});
}

TEST_F(SmallSharedMemory, SufficesForAttentionInEveryDtype) {
  for (const auto& [c, dtype] : in_their_dtypes(attention_cases())) expect_parity(c, dtype, {33, 64});
}

}  // namespace
}  // namespace hexad::tests
