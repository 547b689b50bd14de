#include "framework/kernels/gemm_rate.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "framework/base/clock.h"
#include "framework/base/median.h"

namespace hexad::kernels {

using namespace base;
namespace {

struct Product {
  int64_t rows, inputs, outputs;
};
constexpr std::array of_processors{Product{1024, 1024, 1024}, Product{2048, 2048, 2048}, Product{1024, 1024, 4096}};
constexpr std::array of_cards{Product{4096, 4096, 4096}, Product{8192, 8192, 8192}, Product{16384, 4096, 8192}};

// Values of all elements of x and of w. The products in best_rate() then contain only powers of two, which every dtype
// can represent.
constexpr double x_value = 0.5, w_value = 0.25;

using Check = std::function<void(const Tensor& out, int64_t inputs)>;

void expect_product(const Tensor& out, int64_t inputs) {
  with_dtype<float, bf16, double>("gemm_rate", out.dtype(), [&]<class T>() {
    const double expected = x_value * w_value * static_cast<double>(inputs);
    for (const T value : out.to_vector<T>())
      require(static_cast<double>(value) == expected, "[gemm_rate] an element of the product is ",
              static_cast<double>(value), "; expected ", expected, ", the sum of ", inputs, " equal addends");
  });
}

double flops_of(const Product& p) { return 2.0 * static_cast<double>(p.rows * p.inputs * p.outputs); }

struct Matrices {
  Tensor x, w, out;
};

Matrices matrices_of(const Product& p, Device device, Dtype dtype) {
  const KernelTable& k = kernels(device);
  Stream& stream = device.context().compute();
  const Matrices m{.x = Tensor::empty({p.rows, p.inputs}, dtype, device),
                   .w = Tensor::empty({p.outputs, p.inputs}, dtype, device),
                   .out = Tensor::empty({p.rows, p.outputs}, dtype, device)};
  k.pointwise.fill(stream, m.x, x_value);
  k.pointwise.fill(stream, m.w, w_value);
  stream.synchronize();
  return m;
}

double median_rate(Device device, Dtype dtype, const Product& p, double seconds, const Multiply& multiply,
                   const Check& check) {
  const auto [x, w, out] = matrices_of(p, device, dtype);
  std::vector<double> times;
  const double start = now();
  // The first run also allocates memory, so it is not measured.
  multiply(out, x, w);
  do {
    const double begin = now();
    multiply(out, x, w);
    times.push_back(now() - begin);
  } while (now() - start < seconds || times.size() < 3);
  if (check) check(out, p.inputs);
  return flops_of(p) / median(std::move(times));
}

// Returns the mean rate of all products within `seconds`, in FLOP/s. The rate of the fastest product would be too high,
// because this product may have run while no other process used the core.
double mean_rate(Device device, Dtype dtype, const Product& p, double seconds, const Multiply& multiply) {
  const auto [x, w, out] = matrices_of(p, device, dtype);
  multiply(out, x, w);  // the first product is not measured, because it also allocates memory
  const double start = now();
  double took = 0, products = 0;
  while (took < seconds) {
    multiply(out, x, w);
    ++products;
    took = now() - start;
  }
  return products * flops_of(p) / took;
}

GemmRate best_rate(Device device, Dtype dtype, double seconds, const Multiply& multiply, const Check& check) {
  const bool card = device.kind() == device::DeviceKind::cuda;
  const auto products = card ? std::span<const Product>(of_cards) : std::span<const Product>(of_processors);
  GemmRate best;
  for (const Product& p : products) {
    const double share = seconds / static_cast<double>(products.size());
    const double rate = median_rate(device, dtype, p, share, multiply, check);
    if (rate > best.flops_per_second) best = {rate, p.rows, p.inputs, p.outputs};
  }
  return best;
}

Multiply own_products(Device device) {
  return [device, &stream = device.context().compute()](const Tensor& out, const Tensor& x, const Tensor& w) {
    kernels(device).matmul.forward(stream, out, x, w, Write::replace);
    stream.synchronize();
  };
}

}  // namespace

GemmRate measure_gemm_rate(Device device, Dtype dtype, double seconds) {
  return best_rate(device, dtype, seconds, own_products(device), nullptr);
}

GemmRate sample_gemm_rate(Device device, Dtype dtype, int64_t least) {
  constexpr double slices = 0.04, longest = 0.1;  // seconds per size; maximum seconds of a product
  const bool card = device.kind() == device::DeviceKind::cuda;
  const int64_t smallest = card ? 1024 : 256, largest = card ? 8192 : 2048;
  GemmRate best;
  for (int64_t n = std::max(least, smallest);; n *= 2) {
    const double rate = mean_rate(device, dtype, {n, n, n}, slices, own_products(device));
    if (rate > best.flops_per_second) best = {rate, n, n, n};
    if (2 * n > largest || flops_of({2 * n, 2 * n, 2 * n}) / rate > longest) return best;
  }
}

GemmRate measure_gemm_rate(Device device, Dtype dtype, double seconds, const Multiply& multiply) {
  return best_rate(device, dtype, seconds, multiply, expect_product);
}

}  // namespace hexad::kernels
