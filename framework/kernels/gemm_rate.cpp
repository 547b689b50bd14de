#include "framework/kernels/gemm_rate.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "framework/kernels/pack_cache.h"

namespace hexad::kernels {
namespace {

struct Product {
  int64_t rows, inputs, outputs;
};
constexpr std::array of_processors{Product{1024, 1024, 1024}, Product{2048, 2048, 2048}, Product{1024, 1024, 4096}};
constexpr std::array of_cards{Product{4096, 4096, 4096}, Product{8192, 8192, 8192}, Product{16384, 4096, 8192}};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median_rate(Device device, Dtype dtype, const Product& p, double seconds) {
  const KernelTable& k = kernels(device);
  Stream& stream = device.context().compute();
  const Tensor x = Tensor::empty({p.rows, p.inputs}, dtype, device);
  const Tensor w = Tensor::empty({p.outputs, p.inputs}, dtype, device);
  const Tensor out = Tensor::empty({p.rows, p.outputs}, dtype, device);
  k.pointwise.fill(stream, x, 0.5);
  k.pointwise.fill(stream, w, 0.25);
  PackCache packs;
  std::vector<double> times;
  const double start = now();
  // The first run also makes the packed weights and the primitive; it is not counted.
  k.matmul.forward(stream, out, x, {w, &packs}, Write::replace);
  do {
    const double begin = now();
    k.matmul.forward(stream, out, x, {w, &packs}, Write::replace);
    stream.synchronize();
    times.push_back(now() - begin);
  } while (now() - start < seconds || times.size() < 3);
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
  return 2.0 * static_cast<double>(p.rows * p.inputs * p.outputs) / times[times.size() / 2];
}

}  // namespace

GemmRate measure_gemm_rate(Device device, Dtype dtype, double seconds) {
  GemmRate best;
  for (const Product& p : device.kind() == device::DeviceKind::cuda ? of_cards : of_processors) {
    const double rate = median_rate(device, dtype, p, seconds / static_cast<double>(of_processors.size()));
    if (rate > best.flops_per_second) best = {rate, p.rows, p.inputs, p.outputs};
  }
  return best;
}

}  // namespace hexad::kernels
