#include "layers/moe/pass/offloaded_activations.h"

#include <utility>

namespace hexad::moe {

using namespace base;

OffloadedActivations::OffloadedActivations(ReuseStrategy strategy, const Experts& experts, size_t chunks)
    : inputs_(offloads_inputs(strategy)),
      activations_(offloads_activations(strategy)),
      activation_width_(experts.activation_width()),
      on_device_(chunks),
      offloaded_(chunks),
      policy_(autograd::offload_policy(0)) {}

Arrived OffloadedActivations::add_inputs_offload(PassGraph& g, size_t chunk, Arrived arrived) {
  if (!inputs_) return arrived;
  arrived.takers = 2;
  add(g, arrived.after, "inputs.offload", chunk, g.width, [this, chunk, arrived](Stream& s) mutable {
    offloaded_[chunk].inputs = policy_->save(arrived.rows.take_as_one_of(arrived.takers).values, s);
  });
  return arrived;
}

void OffloadedActivations::put(size_t chunk, ExpertActivations made) {
  // `activated` is not kept, because recomputing it is cheaper than moving it.
  if (activations_) on_device_[chunk].activations.gate_up = std::move(made.gate_up);
}

TaskId OffloadedActivations::add_activations_offload(PassGraph& g, size_t chunk, TaskId computed) {
  if (!activations_) return no_task;
  return add(g, {computed}, "activations.offload", chunk, activation_width_, [this, chunk](Stream& s) {
    offloaded_[chunk].gate_up = policy_->save(std::exchange(on_device_[chunk].activations.gate_up, {}), s);
  });
}

TaskId OffloadedActivations::add_inputs_fetch(PassGraph& g, size_t chunk) {
  if (!inputs_) return no_task;
  return add(g, {}, "inputs.fetch", chunk, g.width, [this, chunk](Stream& s) {
    on_device_[chunk].inputs = std::exchange(offloaded_[chunk].inputs, {})->get(s);
  });
}

TaskId OffloadedActivations::add_activations_fetch(PassGraph& g, size_t chunk, TaskId after) {
  if (!activations_) return no_task;
  return add(g, {after}, "activations.fetch", chunk, activation_width_, [this, chunk](Stream& s) {
    on_device_[chunk].activations.gate_up = std::exchange(offloaded_[chunk].gate_up, {})->get(s);
  });
}

// Adds a task that calls `copy`, which copies the chunk's rows of `width` elements.
TaskId OffloadedActivations::add(PassGraph& g, std::vector<TaskId> after, std::string_view name, size_t chunk,
                                 int64_t width, std::function<void(Stream&)> copy) {
  const int64_t bytes = g.counts.chunks[chunk].rows_computed() * width * size_of(g.dtype);
  return g.add(std::move(after), Lane::copy, TaskKind::copy, cat(name, "[", chunk, "]"), PassGraph::copy_cost(bytes),
               on_lane(std::move(copy)));
}

}  // namespace hexad::moe
