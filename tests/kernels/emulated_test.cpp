// Runs every entry of the table on the emulated device. Results must equal the CPU's bitwise.
#include <gtest/gtest.h>

#include "tests/kernels/cases.h"

namespace hexad::tests {

using namespace base;
using namespace kernels;
namespace {

constexpr uint64_t seed = 20240611;

TEST(EmulatedTable, HasNoHoles) { EXPECT_EQ(holes_of(emulated_table), ""); }

class Emulated : public ::testing::TestWithParam<std::tuple<Case, Dtype>> {};

TEST_P(Emulated, EqualsTheCpuBitwise) {
  const auto& [c, dtype] = GetParam();
  device::DeviceContext device({.kind = device::DeviceKind::emulated});
  for (const Size& size : sizes()) {
    SCOPED_TRACE(cat("seed ", seed, ", rows ", size.rows, ", width ", size.width));
    Trial expected(seed, size, dtype), actual(seed, size, dtype, device);
    c.body(cpu_table, expected);
    c.body(emulated_table, actual);
    EXPECT_EQ(bitwise_difference(expected, actual), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Emulated, ::testing::ValuesIn(in_their_dtypes(all_cases())), [](const auto& p) {
  return cat(std::get<Case>(p.param).name, "_", std::get<Dtype>(p.param));
});

TEST(EmulatedKernel, RefusesMemoryOfTheHost) {
  device::DeviceContext device({.kind = device::DeviceKind::emulated}), host;
  const Tensor out = Tensor::zeros({2}, Dtype::f32, device), x = Tensor::zeros({2}, Dtype::f32, host);
  EXPECT_THROW(emulated_table.pointwise.add(device.compute(), out, out, x), std::logic_error);
}

TEST(EmulatedKernel, DoesNotReadTheCallersOffsetsAfterLaunch) {
  device::DeviceContext device({.kind = device::DeviceKind::emulated});
  const Tensor x = Tensor::zeros({3, 1}, Dtype::f32, device),
               bias = Tensor::from<float>(std::vector<float>{1, 2}, {2, 1}, device);
  std::vector<int64_t> offsets{0, 1, 3};
  emulated_table.bias.grouped_forward(device.compute(), x, bias, GroupOffsets::on_host(offsets));
  offsets.assign(3, 99);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2, 2}));
}

}  // namespace
}  // namespace hexad::tests
