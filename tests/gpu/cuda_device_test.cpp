// Parts of the CUDA backend that kernels use: memory, copies, events.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/base/error.h"
#include "framework/tensor/device_access.h"
#include "framework/tensor/host_read.h"
#include "tests/gpu/card.h"

namespace hexad::tests {

using namespace base;
namespace {

using namespace tensor;
using device::ContextOptions;
using device::DeviceContext;
using device::DeviceKind;

std::vector<int64_t> numbers(size_t count) {
  std::vector<int64_t> v(count);
  std::iota(v.begin(), v.end(), 7);
  return v;
}

TEST(CudaDevice, ReturnsTheValuesCopiedToIt) {
  for (size_t count : {1u, 1000u, 3'000'000u}) {
    const auto values = numbers(count);
    const Tensor t = Tensor::from<int64_t>(values, {static_cast<int64_t>(count)}, card());
    EXPECT_EQ(t.to_vector<int64_t>(), values);
  }
}

TEST(CudaDevice, RefusesHostAccessToItsMemory) {
  const Tensor t = Tensor::zeros({3}, Dtype::f32, card());
  EXPECT_THROW(static_cast<void>(t.data<float>()), std::logic_error);
  EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{0, 0, 0}));
}

TEST(CudaDevice, NewMemoryIsNan) {
  for (float v : Tensor::empty({1000}, Dtype::f32, card()).to_vector<float>()) ASSERT_TRUE(std::isnan(v));
}

TEST(CudaDevice, OffloadedMemoryKeepsValues) {
  const auto values = numbers(100'000);
  const Tensor t = Tensor::from<int64_t>(values, {100'000}, card()),
               away = Tensor::offloaded(t.shape(), t.dtype(), card());
  Stream& stream = card().compute();
  card().copy(stream, device_raw(away), device_raw(t), t.bytes());
  card().fill(stream, device_raw(t), 0, t.bytes());
  card().copy(stream, device_raw(t), device_raw(away), t.bytes());
  EXPECT_EQ(t.to_vector<int64_t>(), values);
  EXPECT_EQ(card().offload_allocator()->stats().used_in(Category::offload), t.bytes());
}

TEST(CudaDevice, HostReadsAreCounted) {
  const Tensor t = Tensor::from<float>(std::vector<float>{1, 2}, {2}, card());
  const HostRead read = read_to_host("two numbers", t, card().compute());
  EXPECT_EQ(read.wait<float>()[1], 2);
  EXPECT_EQ(card().host_reads().at("two numbers"), 1);
}

TEST(CudaDevice, BufferIsUsedAgainOnlyAfterItsCopies) {
  const auto values = numbers(1 << 20);
  const int64_t bytes = 8 << 20;
  const Tensor t = Tensor::empty({1 << 20}, Dtype::i64, card());
  {
    const auto buffer = card().host_buffer(bytes);
    std::copy(values.begin(), values.end(), reinterpret_cast<int64_t*>(buffer.get()));
    card().copy(card().compute(), device_raw(t), buffer.get(), bytes);
  }
  const auto other = card().host_buffer(bytes);
  std::fill_n(other.get(), bytes, std::byte{0});
  EXPECT_EQ(t.to_vector<int64_t>(), values);
}

TEST(CudaDevice, EventPassesAndStreamRefusesHostWork) {
  Stream& stream = card().compute();
  const device::Event event = stream.record();
  event.wait();
  EXPECT_TRUE(event.done());
  EXPECT_NE(event.launched(), nullptr);
  card().stream(device::Lane::copy).wait(event);
  stream.wait(device::Event());
  EXPECT_THROW(stream.run([] {}), std::logic_error);
}

TEST(CudaDevice, ReusesMemoryAndReportsItsLimit) {
  DeviceContext small(ContextOptions{.kind = DeviceKind::cuda, .memory_limit = 64 << 20});
  for (int i = 0; i < 100; ++i) Tensor::empty({(40 << 20) + i}, Dtype::u8, small);
  Tensor::empty({50 << 20}, Dtype::u8, small);  // fits only after the cached block is freed
  try {
    Tensor::empty({70 << 20}, Dtype::u8, small, Category::activation);
    FAIL();
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_TRUE(text.starts_with(
        "out of memory of the card: activation block of 73400320 bytes does not fit under the limit of "
        "67108864 bytes; in use:\n"))
        << text;
  }
  EXPECT_EQ(small.allocator()->stats().total, 0);
}

TEST(CudaDevice, NamesItself) { EXPECT_NE(card().description().find(" SMs"), std::string::npos); }

}  // namespace
}  // namespace hexad::tests
