// C_i of MPMoE: a chunk's experts compute, and with that all other work of the compute lane.
#include <utility>

#include "framework/kernels/compute_share.h"
#include "layers/moe/pass/pass_builders.h"

namespace hexad::moe {

using namespace base;
namespace {

// Of grouped rows in the products of each expert that has some.
Cost expert_cost(const PassGraph& g, size_t chunk, const schedule::ByGemmPass<int64_t>& products) {
  const std::vector<int64_t>& offsets = g.counts.chunks[chunk].offsets;
  int64_t busy = 0;
  for (size_t e = 0; e + 1 < offsets.size(); ++e) busy += offsets[e] < offsets[e + 1] ? 1 : 0;
  Cost cost;
  for (size_t pass = 0; pass < products.size(); ++pass) {
    cost.flops += static_cast<double>(offsets.back() * products[pass]) * g.pass.experts.flops_per_row;
    cost.products[pass] = busy * products[pass];
  }
  return cost;
}

// With a share of the threads: the rest is left to communication.
schedule::TaskWork beside_communication(const PassGraph& g, std::function<void(Stream&)> work) {
  if (g.pass.compute_share == 1) return on_lane(std::move(work));
  return on_lane([work = std::move(work), share = g.pass.compute_share](Stream& s) {
    const kernels::ComputeShare capped(share);
    work(s);
  });
}

// Other chunks' communication; of one chunk there is none.
schedule::TaskWork beside_chunks(const PassGraph& g, std::function<void(Stream&)> work) {
  return g.chunks.size() == 1 ? on_lane(std::move(work)) : beside_communication(g, std::move(work));
}

// As late as it keeps nothing from being sent, and early enough to wait for no row.
void add_shared(PassGraph& g) {
  const SharedWork& shared = g.pass.shared;
  if (!shared.compute) return;
  Cost cost;
  cost.products = shared.products;
  for (int64_t products : shared.products) cost.flops += static_cast<double>(products) * shared.flops;
  g.add_after({}, Lane::compute, TaskKind::compute, "H", std::move(cost),
              beside_communication(g, [&shared](Stream&) { shared.compute(); }));
}

}  // namespace

void add_compute(PassGraph& g, size_t c) {
  const MoePass& pass = g.pass;
  if (g.computed.empty()) add_shared(g);
  add_late_placing(g, c);
  ChunkTasks& tasks = g.chunks[c];
  std::vector<TaskId> after = std::move(tasks.arrived);
  if (pass.bounded) {
    const size_t before = g.computed.size();
    if (before >= 1) after.push_back(g.chunks[g.computed[before - 1]].computed);
    if (before >= 2) after.push_back(g.chunks[g.computed[before - 2]].returned);
  }
  g.computed.push_back(c);
  tasks.last = tasks.computed = g.add_after(
      std::move(after), Lane::compute, TaskKind::compute, cat("C", c), expert_cost(g, c, pass.experts.products),
      beside_chunks(g, [c, &here = g.buffers.chunks[c], &work = g.work](Stream& s) {
        here.results = work.compute(s, c, here.rows.take(), here.inputs.take().values);
      }));
  if (pass.reuse.offloaded_row_bytes > 0)
    g.add_after({tasks.computed}, Lane::copy, TaskKind::copy, cat("O", c),
                PassGraph::copied(g.counts.chunks[c].rows_computed() * pass.reuse.offloaded_row_bytes),
                on_lane([c, &work = g.work](Stream& s) { work.offload(s, c); }));
}

void add_compute_together(PassGraph& g) {
  add_shared(g);
  std::vector<TaskId> placed;
  for (const ChunkTasks& tasks : g.chunks) placed.push_back(tasks.last);
  const TaskId all =
      g.add_after(std::move(placed), Lane::compute, TaskKind::compute, "C", expert_cost(g, 0, g.pass.experts.products),
                  on_lane([&together = g.buffers.together, &work = g.work](Stream& s) {
                    together = work.compute(s, 0, std::exchange(together, {}), {});
                  }));
  for (ChunkTasks& tasks : g.chunks) tasks.last = tasks.computed = all;
}

void add_weight_gradients(PassGraph& g, size_t c, std::string name) {
  g.add_after({g.chunks[c].computed}, Lane::compute, TaskKind::compute, std::move(name),
              expert_cost(g, c, {0, 0, g.pass.experts.weight_products}),
              beside_chunks(g, [c, &work = g.work](Stream& s) { work.weight_gradients(s, c); }));
}

}  // namespace hexad::moe
