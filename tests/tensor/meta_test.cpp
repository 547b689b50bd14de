// Tensors on a meta device, which have no memory.
#include <gtest/gtest.h>

#include "framework/device/meta/meta_run.h"
#include "framework/tensor/host_read.h"

namespace hexad::tests {

using namespace base;
namespace {

using namespace tensor;

using device::DeviceContext;
using device::DeviceKind;

device::ContextOptions meta(DeviceKind stands_for = DeviceKind::cpu) {
  return {.kind = DeviceKind::meta, .meta = std::make_shared<device::MetaRun>(stands_for)};
}

TEST(MetaDevice, GivesTensorsOfAnySizeNoMemory) {
  DeviceContext context(meta());
  const Tensor t = Tensor::empty({1 << 20, 1 << 20}, Dtype::f64, context, Category::parameter);
  EXPECT_EQ(context.allocator()->stats().used_in(Category::parameter), int64_t{8} << 40);
  EXPECT_EQ(t.slice(0, 5, 6).shape(), (Shape{1, 1 << 20}));
  EXPECT_NE(t.address(), t.slice(0, 5, 6).address());
}

TEST(MetaDevice, ThrowsIfTheHostAccessesATensor) {
  DeviceContext context(meta());
  const Tensor t = Tensor::zeros({3, 4}, Dtype::f32, context);
  try {
    t.data<float>();
    FAIL() << "the host got a pointer to memory that does not exist";
  } catch (const std::logic_error& e) {
    EXPECT_NE(std::string(e.what()).find("[3, 4] f32"), std::string::npos) << e.what();
  }
}

TEST(MetaDevice, CountsMemoryLikeTheCpuAllocator) {
  DeviceContext context(meta()), cpu;
  const auto use = [](DeviceContext& c) {
    Tensor a = Tensor::empty({1000}, Dtype::f32, c), b = Tensor::empty({77}, Dtype::i64, c, Category::gradient);
    a.storage()->set_category(Category::activation);
    { const Tensor passing = Tensor::empty({12345}, Dtype::u8, c); }
    a = {};
    const Tensor d = Tensor::empty({5000}, Dtype::bf16, c, Category::communication);
    return c.allocator()->stats();
  };
  const device::MemoryStats counted = use(context), expected = use(cpu);
  EXPECT_EQ(counted.peak, expected.peak);
  EXPECT_EQ(counted.used, expected.used);
  EXPECT_EQ(counted.peak_total, expected.peak_total);
  EXPECT_GT(counted.peak_held, counted.peak_total) << "blocks are rounded up";
}

TEST(MetaDevice, KeepsValuesFromTheHost) {
  DeviceContext context(meta());
  const Tensor t = Tensor::from<int32_t>(std::vector<int32_t>{1, 2, 3, 4}, {4}, context), copy = Tensor::like(t);
  copy.copy_from(t, context.compute());
  EXPECT_EQ(copy.slice(0, 1, 3).to_vector<int32_t>(), (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(Tensor::like(t).to_vector<int32_t>(), std::vector<int32_t>(4, 0)) << "a new tensor's values are unknown";
  const Tensor other = Tensor::like(t);
  copy.copy_from(other, context.compute());
  EXPECT_EQ(copy.to_vector<int32_t>(), std::vector<int32_t>(4, 0)) << "overwritten values are unknown";
}

TEST(MetaDevice, CopiesUnknownValuesFromTheHost) {
  const auto run = std::make_shared<device::MetaRun>(DeviceKind::cuda);
  run->record_issues();
  DeviceContext context({.kind = DeviceKind::meta, .meta = run});
  const Tensor t = Tensor::from<int32_t>(std::vector<int32_t>{1, 2}, {2}, context);
  t.upload(nullptr);
  ASSERT_EQ(run->issues()->issues().size(), 2U);
  EXPECT_EQ(run->issues()->issues()[0], run->issues()->issues()[1])
      << "both uploads are recorded as the same copy from the host";
  EXPECT_EQ(t.to_vector<int32_t>(), std::vector<int32_t>(2, 0));
}

TEST(MetaDevice, RunsAheadIfTheRepresentedDeviceDoes) {
  EXPECT_FALSE(DeviceContext(meta(DeviceKind::cpu)).runs_ahead());
  EXPECT_TRUE(DeviceContext(meta(DeviceKind::cuda)).runs_ahead());
  EXPECT_FALSE(DeviceContext().runs_ahead());
  EXPECT_FALSE(DeviceContext(meta(DeviceKind::cpu)).on_host());
}

TEST(MetaDevice, IsNotSelectableInARecipe) {
  for (const auto& [kind, name] : device::enum_names(DeviceKind::cpu)) EXPECT_NE(name, "meta");
  EXPECT_EQ(name_of(DeviceKind::meta), "meta");
}

}  // namespace
}  // namespace hexad::tests
