#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/base/median.h"
#include "framework/kernels/kernel_table.h"
#include "tools/plan/profile/parts.h"

namespace hexad::plan {
namespace {

using base::Dtype;
using kernels::GroupOffsets;
using kernels::Write;
using tensor::Tensor;

// Returns a function that runs the forward product `p`. Uses the largest measured number of rows that takes at most a
// quarter of kernel_batch. Uses the smallest measured number if every measured number takes longer.
std::function<void()> make_product(const MeasuredProduct& p, device::Device device) {
  double most = p.points.points.front().x;
  for (const Curve::Point& point : p.points.points)
    if (point.y <= kernel_batch / 4) most = point.x;
  const auto rows = static_cast<int64_t>(most);
  const Dtype dtype = dtype_of(p.element);
  const Tensor w = Tensor::zeros({p.experts, p.outputs, p.inputs}, dtype, device);
  const Tensor x = Tensor::zeros({rows, p.inputs}, dtype, device);
  const Tensor y = Tensor::zeros({rows, p.outputs}, dtype, device);
  std::vector<int64_t> offsets;
  for (int64_t e = 0; e <= p.experts; ++e) offsets.push_back(rows / p.experts * e);
  const auto& k = kernels::kernels(device).grouped_matmul;
  device::Stream* stream = &device.context().compute();
  return [=, &k] {
    k.forward(*stream, y, x, w, GroupOffsets::on_host(offsets), Write::replace);
    stream->synchronize();
  };
}

// Returns the number of ranks of a node that compute while the node's other ranks wait. The computing ranks need all
// cores if possible, but at least one rank waits.
int64_t computing_ranks(const Origin& m) {
  const int64_t needed = (*m.node_cores + m.threads - 1) / m.threads;
  return std::min(needed, m.ranks_per_node - 1);
}

}  // namespace

double waiting_cores(const Origin& measured, int64_t computing, double all, double some) {
  const auto threads = static_cast<double>(measured.threads), ranks = static_cast<double>(measured.ranks_per_node);
  const auto busy = static_cast<double>(computing);
  const double needed = ranks * threads * some / all;  // speeds are in inverse proportion to the needed cores
  return std::clamp((needed - busy * threads) / (ranks - busy), 0.0, 1.0);
}

void measure_waiting(Cluster& cluster, const Timer& timer, double seconds, const Progress& progress) {
  Origin& m = cluster.measured;
  if (!m.node_cores || m.ranks_per_node < 2 || *m.node_cores >= m.ranks_per_node * m.threads) return;
  const std::vector<int>& nodes = timer.world().node_of_rank();
  const int rank = timer.world().rank();
  const int64_t place = std::count(nodes.begin(), nodes.begin() + rank, nodes[rank]), computing = computing_ranks(m);
  // Measures nothing if all ranks but one leave a core idle. A waiting rank then slows no other rank.
  if (computing * m.threads < *m.node_cores) return;
  const std::function<void()> product = make_product(cluster.products.front(), timer.device());
  // Runs the product `runs` times on the first `ranks` ranks of each node, while the node's other ranks wait. Returns
  // the seconds of the slowest rank.
  const auto seconds_of = [&](int64_t ranks, int runs) {
    timer.wait_for_ranks();
    const double begin = now();
    for (int i = 0; i < runs && place < ranks; ++i) product();
    return timer.largest(place < ranks ? now() - begin : 0);
  };
  product();  // warm-up: packs weights and touches memory pages
  const double once = std::max(1e-9, seconds_of(m.ranks_per_node, 1));
  const int runs = static_cast<int>(std::ceil(std::clamp(2 * kernel_batch / once, 1.0, 1e6)));
  const int repeats = static_cast<int>(std::clamp(seconds / (2 * once * runs), 3.0, 15.0));
  std::vector<double> waiting;
  for (int i = 0; i < repeats; ++i) {
    const double all = seconds_of(m.ranks_per_node, runs), some = seconds_of(computing, runs);
    waiting.push_back(waiting_cores(m, computing, all, some));
  }
  m.waiting = rounded(base::median(std::move(waiting)));
  progress(fmt::format("ranks that wait: each uses {:.2f} of a core", m.waiting));
}

}  // namespace hexad::plan
