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

void OffloadedActivations::put(size_t chunk, ChunkActivations made) {
  if (inputs_) on_device_[chunk].inputs = std::move(made.inputs);
  // `activated` is not kept, because recomputing it is cheaper than moving it.
  if (activations_) on_device_[chunk].activations.gate_up = std::move(made.activations.gate_up);
}

TaskId OffloadedActivations::add_offload(PassGraph& g, size_t chunk, TaskId computed) {
  if (!inputs_ && !activations_) return no_task;
  return g.add({computed}, Lane::copy, TaskKind::copy, cat("offload[", chunk, "]"), moved(g, chunk),
               on_lane([this, chunk](Stream& s) {
                 const ChunkActivations made = std::exchange(on_device_[chunk], {});
                 const auto copy = [&](const Tensor& t) { return t.defined() ? policy_->save(t, s) : nullptr; };
                 offloaded_[chunk] = {.inputs = copy(made.inputs), .gate_up = copy(made.activations.gate_up)};
               }));
}

TaskId OffloadedActivations::add_fetch(PassGraph& g, size_t chunk, TaskId after) {
  if (!inputs_ && !activations_) return no_task;
  return g.add({after}, Lane::copy, TaskKind::copy, cat("fetch[", chunk, "]"), moved(g, chunk),
               on_lane([this, chunk](Stream& s) {
                 const Copies copies = std::exchange(offloaded_[chunk], {});
                 if (copies.inputs) on_device_[chunk].inputs = copies.inputs->get(s);
                 if (copies.gate_up) on_device_[chunk].activations.gate_up = copies.gate_up->get(s);
               }));
}

Cost OffloadedActivations::moved(const PassGraph& g, size_t chunk) const {
  const int64_t elements = (inputs_ ? g.width : 0) + (activations_ ? activation_width_ : 0);
  return PassGraph::copy_cost(g.counts.chunks[chunk].rows_computed() * elements * size_of(g.dtype));
}

}  // namespace hexad::moe
