#include "layers/moe/router/router_statistics.h"

#include <numeric>

#include "framework/tensor/host_read.h"

namespace hexad::layers {

using namespace base;
using namespace tensor;

ModelStatistics::ModelStatistics(int64_t moe_layers, int64_t experts, Device device) {
  RouterStatistics empty;
  empty.counts.assign(experts, 0);
  layers.assign(moe_layers, empty);
  if (moe_layers == 0) return;
  counts_ = Tensor::zeros({moe_layers, 2, experts}, Dtype::i64, device);
  losses_ = Tensor::zeros({moe_layers, 2}, Dtype::f64, device);
  const Tensor counts = counts_.reshape({2 * moe_layers, experts}), losses = losses_.reshape({2 * moe_layers});
  for (int64_t l = 0; l < moe_layers; ++l) {
    const auto count = [&](int64_t row) { return counts.slice(0, row, row + 1).reshape({experts}); };
    const auto loss = [&](int64_t i) { return losses.slice(0, i, i + 1); };
    layers[l].sums = {count(2 * l), count(2 * l + 1), loss(2 * l), loss(2 * l + 1)};
  }
}

void ModelStatistics::reset(Stream& stream) {
  for (const Tensor& t : {counts_, losses_})
    if (t.defined()) t.fill_bytes(0, stream);
  for (RouterStatistics& layer : layers) {
    layer.passes = layer.shadowed = 0;
    layer.choices_of_experts.reset();
  }
}

void ModelStatistics::read(Stream& stream) {
  if (!counts_.defined()) return;
  const HostRead read_counts = read_to_host("step: router counts", counts_, stream),
                 read_losses = read_to_host("step: router losses", losses_, stream);
  const std::span counts = read_counts.wait<int64_t>();
  const std::span losses = read_losses.wait<double>();
  const size_t experts = counts_.dim(2);
  const auto sum = [](std::span<const int64_t> of) { return std::accumulate(of.begin(), of.end(), int64_t{0}); };
  for (size_t l = 0; l < layers.size(); ++l) {
    RouterStatistics& layer = layers[l];
    const auto chosen = counts.subspan(2 * l * experts, experts), kept = counts.subspan((2 * l + 1) * experts, experts);
    layer.counts.assign(chosen.begin(), chosen.end());
    layer.assignments = layer.choices_of_experts.value_or(sum(chosen));
    layer.dropped = layer.assignments - sum(layer.may_drop ? kept : chosen);
    layer.aux_loss = losses[2 * l], layer.z_loss = losses[2 * l + 1];
  }
}

}  // namespace hexad::layers
