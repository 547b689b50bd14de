#include "layers/moe/pass/shadow_tasks.h"

#include <utility>

namespace hexad::moe {

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
                PassGraph::transfer(ranks_, "ep", sent, others * bytes),
                on_lane([&weights, &hot, &ranks = ranks_](Stream& s) { weights.receive_shadows(s, hot, ranks); }));
}

void ShadowTasks::add_reduction(std::vector<TaskId> after) {
  if (!gradients_) return;
  const int64_t sent = 2 * (ranks_.size() - 1) * gradients_->bytes() / ranks_.size();
  const TaskId summed =
      g_.add(std::move(after), Lane::inter, TaskKind::all_reduce, "shadows.all_reduce",
             PassGraph::transfer(ranks_, "ep", sent, sent), on_lane([this](Stream& s) { gradients_->sum(s, ranks_); }));
  g_.add({summed}, Lane::compute, TaskKind::copy, "shadows.add", PassGraph::copied(gradients_->bytes() / ranks_.size()),
         on_lane([this](Stream& s) { gradients_->add_own(s, ranks_.rank()); }));
}

}  // namespace hexad::moe
