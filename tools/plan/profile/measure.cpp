#include "framework/kernels/cpu/parallel.h"
#include "tools/plan/profile/parts.h"

namespace hexad::plan {

ProfileOptions quick_profile() {
  return {.seconds = 10,
          .octaves = 4,
          .largest_bytes = 4 << 20,
          .largest_rows = 1024,
          .row_ratio = 8,
          .longest_sequence = 512,
          .max_in_use = 64 << 20,
          .rounds = 1,
          .products = {usual_products.front()},
          .attention = {usual_heads.front()}};
}

Cluster measure(const comm::ProcessGroup& world, const ProfileOptions& options, const Progress& progress) {
  kernels::cpu::set_thread_count(options.threads);
  device::DeviceContext context({.offload_folder = options.offload_folder});
  const Timer timer(world, context);
  const Progress from_one = [&](const std::string& line) {
    if (world.rank() == 0) progress(line);
  };
  Cluster cluster;
  const auto [nodes, ranks_per_node] = nodes_of(world);
  cluster.measured.nodes = nodes, cluster.measured.ranks_per_node = ranks_per_node;
  cluster.measured.threads = options.threads;
  if (options.node_cores)
    cluster.measured.node_cores = -static_cast<int64_t>(timer.largest(-static_cast<double>(*options.node_cores)));
  const std::vector<MeasuredGroup> groups = measured_groups(world);
  const Budget budget(timer, options.seconds);
  if (!groups.empty()) measure_links(cluster, groups, timer, options, 0.3 * budget.left(), from_one);
  measure_peaks(cluster, timer, from_one);
  measure_products(cluster, timer, options, 0.5 * budget.left(), from_one);
  measure_attention(cluster, timer, options, 0.25 * budget.left(), from_one);
  measure_small_kernels(cluster, timer, options, 0.3 * budget.left(), from_one);
  measure_copies(cluster, timer, options, 0.2 * budget.left(), from_one);
  measure_host(cluster, timer, 0.1 * budget.left(), from_one);
  measure_waiting(cluster, timer, 0.1 * budget.left(), from_one);
  measure_slowdowns(cluster, groups, timer, options, budget.left(), from_one);
  return cluster;
}

}  // namespace hexad::plan
