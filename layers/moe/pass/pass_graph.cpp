#include "layers/moe/pass/pass_graph.h"

#include <utility>

#include "layers/moe/pass/pass_builders.h"
#include "parallel/ep/offsets.h"

namespace hexad::moe {

using namespace base;
namespace {

void make_buffers(const PassGraph& g) {
  const MoePass& p = g.pass;
  PassBuffers& buffers = g.buffers;
  buffers.chunks.assign(g.counts.chunks.size(), {});
  if (!p.bounded && !g.returns_at_once()) {
    const Rows returned = g.format_back().buffer(g.counts.slots(), p.rows.device, Category::temporary);
    buffers.returned = returned.values, buffers.returned_row_weights = returned.row_weights;
  }
  if (p.collection) {
    int64_t all = 0;
    for (const auto& counts : p.collection->counts) all += ep::sum_of(counts);
    buffers.collected = Tensor::empty({all, p.rows.width}, p.rows.dtype, p.rows.device, Category::communication);
  }
  if (g.counts.merged) buffers.together = grouped_buffer(p, g.format(p.rows.weights_out), g.counts.rows_computed());
}

void add_step(PassGraph& g, const IssueStep& step) {
  switch (step.stage) {
    case Stage::dispatch:
      return add_dispatch(g, step.chunk);
    case Stage::compute:
      return add_compute(g, step.chunk);
    case Stage::combine:
      return add_combine(g, step.chunk);
    case Stage::weights:
      if (g.pass.experts.weight_products > 0) add_weight_gradients(g, step.chunk, cat("W", step.chunk));
  }
}

}  // namespace

schedule::TaskGraph make_pass_graph(const MoePass& pass, PassWork& work, PassBuffers& buffers) {
  PassGraph g(pass, work, buffers);
  make_buffers(g);
  const size_t chunks = g.chunks.size();
  if (pass.gathering.group) add_gather(g);
  if (g.counts.merged) {
    for (size_t c = 0; c < chunks; ++c) add_dispatch(g, c);
    add_compute_together(g);
    for (size_t c = 0; c < chunks; ++c) add_combine(g, c);
    if (pass.experts.weight_products > 0) add_weight_gradients(g, 0, "W");
  } else {
    for (const IssueStep& step : checked_steps(pass.order, chunks, pass.bounded)) add_step(g, step);
  }
  return std::move(g.graph);
}

PassGraph::PassGraph(const MoePass& p, PassWork& w, PassBuffers& b)
    : pass(p),
      work(w),
      buffers(b),
      counts(p.plan.counts),
      ranks(counts.all_to_all_group(p.groups)),
      nodes(counts.node_groups(p.groups)),
      etp(*p.groups.etp),
      chunks(counts.chunks.size()) {}

TaskId PassGraph::add_after(std::vector<TaskId> after, Lane lane, TaskKind kind, std::string name, Cost cost,
                            schedule::TaskWork task) {
  std::erase(after, no_task);
  return graph.add({lane, std::move(name), std::move(cost), kind, pass.bounded}, std::move(after), std::move(task));
}

void PassGraph::add(size_t chunk, Lane lane, TaskKind kind, std::string name, Cost cost, schedule::TaskWork task) {
  TaskId& last = chunks[chunk].last;
  last = add_after({last}, lane, kind, std::move(name), std::move(cost), std::move(task));
}

RowFormat PassGraph::format(int64_t row_weights) const {
  return {pass.wire, pass.rows.width, pass.rows.dtype, row_weights * counts.slots_per_row, pass.wire_kernels};
}

Cost PassGraph::transfer(const comm::ProcessGroup& group, std::string name, int64_t sent, int64_t received) {
  return {.wire_bytes = sent,
          .received_bytes = received,
          .group = std::move(name),
          .group_size = group.size(),
          .crosses_nodes = group.crosses_nodes()};
}

Cost PassGraph::exchange(const comm::ProcessGroup& group, std::string_view level, const comm::Splits& splits,
                         const RowFormat& format) const {
  // Rows that a rank keeps for itself do not travel.
  const auto to_others = [&](const std::vector<int64_t>& rows) {
    return (ep::sum_of(rows) - rows[static_cast<size_t>(group.rank())]) * format.row_bytes();
  };
  return transfer(group, cat(counts.esp_exchange == ep::EspExchange::direct ? "experts" : "ep", level),
                  to_others(splits.send), to_others(splits.receive));
}

int64_t PassGraph::passing_bytes(size_t chunk, const RowFormat& format) const {
  return ep::sum_of(counts.chunks[chunk].steps->inside.receive) * format.row_bytes();
}

Cost PassGraph::copied(int64_t bytes) {
  Cost cost;
  cost.copy_bytes = bytes;
  return cost;
}

schedule::TaskWork on_lane(std::function<void(Stream&)> work) {
  return [work = std::move(work)](Stream& s) {
    work(s);
    return device::Event{};
  };
}

Rows grouped_buffer(const MoePass& pass, RowFormat format, int64_t rows) {
  format.row_weights /= pass.plan.counts.slots_per_row;
  return format.buffer(rows, pass.rows.device);
}

}  // namespace hexad::moe
