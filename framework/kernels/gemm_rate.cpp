#include "framework/kernels/gemm_rate.h"

#include <algorithm>
#include <array>
#include <vector>

#include "framework/base/clock.h"

namespace hexad::kernels {

using namespace base;
namespace {

struct Product {
  int64_t rows, inputs, outputs;
};
constexpr std::array of_processors{Product{1024, 1024, 1024}, Product{2048, 2048, 2048}, Product{1024, 1024, 4096}};
constexpr std::array of_cards{Product{4096, 4096, 4096}, Product{8192, 8192, 8192}, Product{16384, 4096, 8192}};

// What every element of x is, and of w: sums of their products are powers of two, which every dtype has.
constexpr double x_value = 0.5, w_value = 0.25;

using Check = std::function<void(const Tensor& out, int64_t inputs)>;

void expect_product(const Tensor& out, int64_t inputs) {
  with_dtype<float, bf16, double>("gemm_rate", out.dtype(), [&]<class T>() {
    const double expected = x_value * w_value * static_cast<double>(inputs);
    for (const T value : out.to_vector<T>())
      require(static_cast<double>(value) == expected, "[gemm_rate] an element is ", static_cast<double>(value),
              ", expected ", expected);
  });
}

double median_rate(Device device, Dtype dtype, const Product& p, double seconds, const Multiply& multiply,
                   const Check& check) {
  const KernelTable& k = kernels(device);
  Stream& stream = device.context().compute();
  const Tensor x = Tensor::empty({p.rows, p.inputs}, dtype, device);
  const Tensor w = Tensor::empty({p.outputs, p.inputs}, dtype, device);
  const Tensor out = Tensor::empty({p.rows, p.outputs}, dtype, device);
  k.pointwise.fill(stream, x, x_value);
  k.pointwise.fill(stream, w, w_value);
  stream.synchronize();
  std::vector<double> times;
  const double start = now();
  // The first run also finds its memory; it is not counted.
  multiply(out, x, w);
  do {
    const double begin = now();
    multiply(out, x, w);
    times.push_back(now() - begin);
  } while (now() - start < seconds || times.size() < 3);
  if (check) check(out, p.inputs);
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
  return 2.0 * static_cast<double>(p.rows * p.inputs * p.outputs) / times[times.size() / 2];
}

GemmRate best_rate(Device device, Dtype dtype, double seconds, const Multiply& multiply, const Check& check) {
  GemmRate best;
  for (const Product& p : device.kind() == device::DeviceKind::cuda ? of_cards : of_processors) {
    const double share = seconds / static_cast<double>(of_processors.size());
    const double rate = median_rate(device, dtype, p, share, multiply, check);
    if (rate > best.flops_per_second) best = {rate, p.rows, p.inputs, p.outputs};
  }
  return best;
}

}  // namespace

GemmRate measure_gemm_rate(Device device, Dtype dtype, double seconds) {
  Stream& stream = device.context().compute();
  const auto multiply = [&](const Tensor& out, const Tensor& x, const Tensor& w) {
    kernels(device).matmul.forward(stream, out, x, w, Write::replace);
    stream.synchronize();
  };
  return best_rate(device, dtype, seconds, multiply, nullptr);
}

GemmRate measure_gemm_rate(Device device, Dtype dtype, double seconds, const Multiply& multiply) {
  return best_rate(device, dtype, seconds, multiply, expect_product);
}

}  // namespace hexad::kernels
