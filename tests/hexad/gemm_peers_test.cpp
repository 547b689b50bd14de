// Products of oneDNN and Eigen, with which `hexad bench gemm` compares Hexad's products.
#include "tools/hexad/gemm_peers.h"

#include <gtest/gtest.h>

#include "framework/base/tolerance.h"
#include "framework/kernels/cpu/parallel.h"
#include "tools/hexad/eigen_product.h"
#include "tools/hexad/onednn_product.h"

namespace hexad::app {

using namespace base;
namespace {

using namespace tensor;

/// Checks the product x[rows, inputs] * w[outputs, inputs]^T. The elements are small integers, so that sums are exact
/// until the result is rounded to T.
template <class T>
void expect_product(const kernels::Multiply& multiply, int64_t rows, int64_t outputs, int64_t inputs,
                    device::DeviceContext& context) {
  const auto x_at = [](int64_t i, int64_t k) { return static_cast<int>((3 * i + 5 * k) % 7 - 3); };
  const auto w_at = [](int64_t j, int64_t k) { return static_cast<int>((2 * j + k) % 5 - 2); };
  const auto stored = [](int value) { return T(static_cast<accumulator_t<T>>(value)); };
  std::vector<T> x, w;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < inputs; ++k) x.push_back(stored(x_at(i, k)));
  for (int64_t j = 0; j < outputs; ++j)
    for (int64_t k = 0; k < inputs; ++k) w.push_back(stored(w_at(j, k)));
  const Tensor out = Tensor::empty({rows, outputs}, dtype_of<T>, context);
  multiply(out, Tensor::from<T>(x, {rows, inputs}, context), Tensor::from<T>(w, {outputs, inputs}, context));
  const auto got = out.view<T, 2>();
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < outputs; ++j) {
      int sum = 0;
      for (int64_t k = 0; k < inputs; ++k) sum += x_at(i, k) * w_at(j, k);
      ASSERT_EQ(static_cast<double>(got(i, j)), static_cast<double>(stored(sum)))
          << i << ", " << j << " of " << rows << " x " << outputs << " x " << inputs;
    }
}

/// Runs the check for f32 and `Other`, with 1 to 3 threads.
template <class Other>
void expect_products_for_any_number_of_threads(const kernels::Multiply& multiply) {
  device::DeviceContext context;
  for (const int threads : {1, 2, 3}) {
    kernels::cpu::set_thread_count(threads);
    expect_product<float>(multiply, 1, 1, 1, context);
    expect_product<float>(multiply, 2, 70, 33, context);
    expect_product<Other>(multiply, 67, 5, 129, context);
  }
  kernels::cpu::set_thread_count(1);
}

TEST(EigenProduct, IsXTimesWTransposed) { expect_products_for_any_number_of_threads<double>(eigen_product); }

TEST(OneDnnProduct, IsXTimesWTransposed) {
  const kernels::Multiply multiply = onednn_product();
  if (!multiply) GTEST_SKIP() << "oneDNN " << onednn_description();
  if (onednn_multiplies(Dtype::bf16))
    expect_products_for_any_number_of_threads<bf16>(multiply);
  else
    expect_products_for_any_number_of_threads<float>(multiply);
}

TEST(GemmPeers, DescribeThemselvesAndReportNoSpeedForMissingDtypes) {
  device::DeviceContext context;
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f64}) {
    const std::vector<GemmPeer> peers = measure_gemm_peers(context, dtype, 0);
    ASSERT_EQ(peers.size(), 2u);
    EXPECT_EQ(peers[0].name, "oneDNN");
    EXPECT_EQ(peers[1].name, "Eigen");
    for (const GemmPeer& peer : peers) EXPECT_FALSE(peer.description.empty()) << peer.name;
    EXPECT_EQ(peers[1].flops_per_second > 0, dtype != Dtype::bf16) << dtype;
    if (dtype == Dtype::f64) {
      EXPECT_EQ(peers[0].flops_per_second, 0);
    }
  }
}

}  // namespace
}  // namespace hexad::app
