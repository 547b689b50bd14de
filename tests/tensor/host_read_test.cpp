// Explicit reads by the host. If the tensor is already in host memory, read_to_host() copies the values, copy_to_host()
// returns the tensor itself, and no read is counted.
#include "framework/tensor/host_read.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

namespace hexad::tests {

using namespace base;
namespace {

using namespace tensor;

TEST(HostRead, ReturnsTheValuesAtTheTimeOfTheCall) {
  device::DeviceContext context;
  const Tensor t = Tensor::from<float>(std::vector<float>{1, 2, 3}, {3}, context);
  const HostRead read = read_to_host("test", t, context.compute());
  t.data<float>()[1] = 7;
  const auto values = read.wait<float>();
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), (std::vector<float>{1, 2, 3}));
  EXPECT_TRUE(context.host_reads().empty());
}

TEST(HostRead, ReturnsAScalarOfAnyAccumulatorDtype) {
  device::DeviceContext context;
  EXPECT_EQ(
      read_to_host("f32", Tensor::from<float>(std::vector<float>{0.5f}, {1}, context), context.compute()).scalar(),
      0.5);
  EXPECT_EQ(
      read_to_host("f64", Tensor::from<double>(std::vector<double>{0.1}, {1}, context), context.compute()).scalar(),
      0.1);
}

TEST(HostRead, ReturnsATensorOfTheSameShapeOnTheHost) {
  device::DeviceContext context({.kind = device::DeviceKind::emulated});
  const Tensor t = Tensor::from<int32_t>(std::vector<int32_t>{1, 2, 3, 4}, {2, 2}, context);
  const HostRead read = read_to_host("test", t, context.compute());
  EXPECT_EQ(read.tensor().shape(), t.shape());
  EXPECT_TRUE(read.tensor().device().on_host());
  EXPECT_EQ(read.tensor().to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3, 4}));
  EXPECT_EQ(context.host_reads().at("test"), 1);
}

TEST(HostRead, NamesMismatchedDtypes) {
  device::DeviceContext context;
  const HostRead read = read_to_host("test", Tensor::zeros({1}, Dtype::i64, context), context.compute());
  try {
    read.wait<float>();
    FAIL() << "no error was thrown; expected std::logic_error";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[tensor] access to [1] as f32; expected its dtype, i64");
  }
}

TEST(HostRead, KeepsItsMemoryUntilTheValuesArriveEvenIfDropped) {
  device::DeviceContext context;
  const auto lane = device::make_worker_stream("lane");
  std::atomic<bool> open = false;
  lane->run([&] { open.wait(false); });
  read_to_host("test", Tensor::zeros({256}, Dtype::f32, context), *lane);
  constexpr int64_t bytes = 256 * 4;
  // This buffer would probably reuse the memory of the dropped read if that read had freed its memory.
  const std::shared_ptr<std::byte> others = context.host_buffer(bytes);
  std::fill_n(others.get(), bytes, std::byte{1});
  open = true;
  open.notify_all();
  lane->synchronize();
  EXPECT_EQ(std::count(others.get(), others.get() + bytes, std::byte{1}), bytes);
}

TEST(HostRead, IsEmptyForAnEmptyTensor) {
  device::DeviceContext context;
  EXPECT_TRUE(
      read_to_host("test", Tensor::zeros({0, 3}, Dtype::f32, context), context.compute()).wait<float>().empty());
}

TEST(CopyToHost, IsTheTensorItselfOnTheHost) {
  device::DeviceContext context;
  const Tensor t = Tensor::zeros({2}, Dtype::i32, context);
  EXPECT_EQ(copy_to_host("test", t, context.compute()).storage(), t.storage());
  EXPECT_EQ(on_device(t, context, Category::temporary).storage(), t.storage());
}

TEST(Device, MissingBackendIsRefusedWithTheReason) {
  try {
    const device::DeviceContext context({.kind = device::DeviceKind::cuda});
    GTEST_SKIP() << "this machine has a CUDA device";
  } catch (const Error& e) {
    const bool built_without = std::string(e.what()).find("built without CUDA") != std::string::npos;
    EXPECT_EQ(e.code(), built_without ? ExitCode::usage : ExitCode::resource);
    EXPECT_NE(std::string(e.what()).find("use device: cpu"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace hexad::tests
