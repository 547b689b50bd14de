#include "tools/check_cluster/measurements.h"

#include <array>
#include <functional>

#include "framework/base/clock.h"
#include "framework/base/error.h"
#include "framework/base/median.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/gemm_rate.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::check_cluster {
namespace {

using base::Dtype;
using base::now;
using tensor::Tensor;

constexpr int64_t width = 512, product_rows = 256;
constexpr int64_t copied_floats = 4 << 20;  // 16 MiB, more than a core's share of the caches
constexpr int batches = 3;

// Returns the number of runs of `work` per second: the median of several batches. Each batch lasts several time slices.
// A rank continues to work until all ranks have measured the batch. Therefore, a rank that starts late, because other
// ranks use its core, is measured while these ranks still work.
double runs_per_second(const comm::ProcessGroup& world, device::Device device, double batch_seconds,
                       const std::function<void()>& work) {
  work();
  std::vector<double> durations;
  device::Stream& stream = device.context().compute();
  for (int batch = 0; batch < batches; ++batch) {
    world.barrier(stream).wait();
    const double began = now();
    int runs = 0;
    do {
      work();
      ++runs;
    } while (now() - began < batch_seconds);
    durations.push_back((now() - began) / runs);
    const device::Event measured = world.barrier(stream);
    while (!measured.done()) work();
  }
  return 1 / base::lower_median(std::move(durations));
}

double card_product_rate(const device::ContextOptions& options) {
  device::DeviceContext card(options);
  return kernels::sample_gemm_rate(card, Dtype::bf16, 0).flops_per_second;
}

}  // namespace

void measure_rates(RankReport& report, const comm::ProcessGroup& world, device::Device device, double seconds) {
  kernels::cpu::set_thread_count(report.facts.threads);
  const auto zeros = [&](base::Shape shape) { return Tensor::zeros(shape, Dtype::f32, device); };
  const auto& k = kernels::kernels(device);
  device::Stream& stream = device.context().compute();
  const double batch_seconds = seconds / (2 * batches);
  {
    const Tensor x = zeros({product_rows, width}), y = zeros({product_rows, width}), weight = zeros({1, width, width});
    const std::array<int64_t, 2> offsets{0, product_rows};
    const double runs = runs_per_second(world, device, batch_seconds, [&] {
      k.grouped_matmul.forward(stream, y, x, weight, kernels::GroupOffsets::on_host(offsets), kernels::Write::replace);
      stream.synchronize();
    });
    report.product_rate = runs * 2 * static_cast<double>(product_rows * width * width);
  }
  const Tensor from = zeros({copied_floats}), to = zeros({copied_floats});
  const double runs =
      runs_per_second(world, device, batch_seconds, [&] { k.pointwise.copy(stream, to, from), stream.synchronize(); });
  report.copy_rate = runs * 2 * 4 * static_cast<double>(copied_floats);
}

void measure_card_rate(RankReport& report, const comm::ProcessGroup& world, device::Device host,
                       const device::ContextOptions& options) {
  device::Stream& stream = host.context().compute();
  world.barrier(stream).wait();
  try {
    if (!report.facts.card.empty()) report.card_product_rate = card_product_rate(options);
  } catch (const base::Error& e) {
    report.facts.card.clear();
    report.facts.card_error = e.what();
    report.facts.card_exit_code = static_cast<int>(e.code());
  }
  world.barrier(stream).wait();
}

}  // namespace hexad::check_cluster
