#include "layers/moe/pass/expert_tasks.h"

#include <utility>

#include "framework/kernels/compute_share.h"

namespace hexad::moe {

using namespace base;

ExpertTasks::ExpertTasks(PassGraph& g, double flops_per_row, const schedule::ByGemmPass<int64_t>& products)
    : g_(g), flops_per_row_(flops_per_row), products_(products), computed_(g.routes.computations()) {}

void ExpertTasks::add_shared(SharedWork shared) {
  if (!shared.compute) return;
  Cost cost;
  cost.products = shared.cost.products, cost.transfers = std::move(shared.cost.transfers);
  for (int64_t products : shared.cost.products) cost.flops += static_cast<double>(products) * shared.cost.flops;
  const double share = cost.share = share_beside();
  g_.add({}, Lane::compute, TaskKind::compute, "shared_experts", std::move(cost),
         capped(share, [compute = std::move(shared.compute)](Stream&) { compute(); }));
}

void ExpertTasks::add(size_t chunk, Arrived arrived, std::vector<TaskId> after,
                      std::function<Rows(Stream&, Rows)> compute) {
  after.insert(after.begin(), arrived.after.begin(), arrived.after.end());
  for (const TaskId task : g_.room_to_compute()) after.push_back(task);
  Computed& out = computed_[chunk];
  auto work = [rows = std::move(arrived.rows), takers = arrived.takers, results = out.results,
               compute = std::move(compute)](Stream& s) mutable {
    results.put(compute(s, rows.take_as_one_of(takers)));
  };
  const double share = g_.counts.merged ? 1 : share_of_chunks();
  out.by = g_.add(std::move(after), Lane::compute, TaskKind::compute, name("experts", chunk),
                  cost(chunk, g_.counts.chunks[chunk].offsets, products_, share), capped(share, std::move(work)));
  g_.note_computed(chunk, out.by);
}

void ExpertTasks::add_weight_gradients(size_t chunk, int64_t products, std::function<void(Stream&)> compute) {
  g_.add({computed_[chunk].by}, Lane::compute, TaskKind::compute, name("weight_gradients", chunk),
         cost(chunk, g_.counts.chunks[chunk].own_offsets(), {0, 0, products}, share_of_chunks()),
         capped(share_of_chunks(), std::move(compute)));
}

TaskId ExpertTasks::add_shadow_gradients(size_t chunk, int64_t products, std::function<void(Stream&)> compute) {
  return g_.add({computed_[chunk].by}, Lane::compute, TaskKind::compute, name("shadows.gradients", chunk),
                cost(chunk, g_.counts.chunks[chunk].shadow_offsets, {0, 0, products}, share_of_chunks()),
                capped(share_of_chunks(), std::move(compute)));
}

// Returns the cost of a chunk's matrix products, computed by the fraction `share` of the threads. `offsets` are the
// offsets of the experts' rows. Experts without rows are not counted.
Cost ExpertTasks::cost(size_t chunk, std::span<const int64_t> offsets, const schedule::ByGemmPass<int64_t>& products,
                       double share) const {
  int64_t busy = 0;
  for (size_t e = 0; e + 1 < offsets.size(); ++e) busy += offsets[e] < offsets[e + 1] ? 1 : 0;
  Cost cost;
  cost.dense = g_.routes.settings.schedule.is_dense(g_.counts.chunks[chunk].offsets);
  cost.share = share;
  for (size_t pass = 0; pass < products.size(); ++pass) {
    cost.flops += static_cast<double>(offsets.back() * products[pass]) * flops_per_row_;
    cost.products[pass] = busy * products[pass];
  }
  return cost;
}

// Returns the share of the threads that computes while communication is in flight.
double ExpertTasks::share_beside() const { return g_.routes.settings.schedule.compute_share; }

// Returns the share of the threads that computes one chunk while other chunks may be in flight. All threads compute a
// single chunk.
double ExpertTasks::share_of_chunks() const { return g_.counts.chunks.size() == 1 ? 1 : share_beside(); }

// Returns a task that runs `work` on the fraction `share` of the threads or, on a GPU, of the multiprocessors
// (kernels::ComputeShare). Communication uses the rest.
schedule::TaskWork ExpertTasks::capped(double share, std::function<void(Stream&)> work) {
  if (share == 1) return on_lane(std::move(work));
  return on_lane([work = std::move(work), share](Stream& s) {
    const kernels::ComputeShare limit(share);
    work(s);
  });
}

std::string ExpertTasks::name(std::string_view stage, size_t chunk) const {
  return g_.counts.merged ? std::string(stage) : cat(stage, "[", chunk, "]");
}

ShadowTasks::ShadowTasks(PassGraph& g, const Experts& experts)
    : g_(g), experts_(experts), ranks_(*g.routes.settings.groups.ep) {
  if (!g.counts.hot.any()) return;
  gradients_.emplace(experts.parameters(), g.counts.hot);
  if (!gradients_->any()) gradients_.reset();
}

TaskId ShadowTasks::add_broadcast(ExpertWeights& weights) {
  const ep::HotExperts& hot = g_.counts.hot;
  if (!hot.any()) return no_task;
  int64_t mine = 0;  // number of hot experts of this rank
  hot.for_each_owner([&](int owner, int64_t begin, int64_t end) { mine += owner == ranks_.rank() ? end - begin : 0; });
  // In a broadcast, the expert's rank scatters the weights, and then all ranks gather them (Operation::wire_bytes).
  const int64_t bytes = experts_.weight_bytes(), size = ranks_.size(), others = hot.count() - mine;
  const int64_t sent = (2 * (size - 1) * mine + (size - 2) * others) * bytes / size;
  return g_.add({}, Lane::inter, TaskKind::all_gather, "shadows.broadcast",
                PassGraph::transfer_cost(ranks_, "ep", sent, others * bytes),
                on_lane([&weights, &hot, &ranks = ranks_](Stream& s) { weights.receive_shadows(s, hot, ranks); }));
}

void ShadowTasks::add_reduction(std::vector<TaskId> after) {
  if (!gradients_) return;
  const int64_t parts = (ranks_.size() - 1) * gradients_->part_bytes();
  const TaskId summed = g_.add(std::move(after), Lane::inter, TaskKind::reduce_scatter, "shadows.reduce_scatter",
                               PassGraph::transfer_cost(ranks_, "ep", parts, parts),
                               on_lane([this](Stream& s) { gradients_->sum(s, ranks_); }));
  const ShadowGradients::Moved moved = gradients_->moved(ranks_.rank());
  const TaskId returned = g_.add({summed}, Lane::inter, TaskKind::all_to_all, "shadows.a2a",
                                 PassGraph::transfer_cost(ranks_, "ep", moved.sent, moved.received),
                                 on_lane([this](Stream& s) { gradients_->send_to_owners(s, ranks_); }));
  g_.add({returned}, Lane::compute, TaskKind::copy, "shadows.add", PassGraph::copy_cost(moved.own),
         on_lane([this](Stream& s) { gradients_->add_own(s, ranks_.rank()); }));
}

}  // namespace hexad::moe
