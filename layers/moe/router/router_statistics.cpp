#include "layers/moe/router/router_statistics.h"

#include <algorithm>
#include <numeric>

#include "framework/tensor/host_read.h"

namespace hexad::layers {

using namespace base;
using namespace tensor;

void RouterStatistics::reset() {
  counts.assign(counts.size(), 0);
  assignments = dropped = kept_ = 0;
  aux_loss = z_loss = 0;
}

void RouterStatistics::count(int64_t row, const Tensor& ids, Stream& stream) {
  require(sums_.counts.defined(), "[router] the statistics have no memory on the device");
  kernels::kernels(ids.device())
      .router_loss.count(stream, sums_.counts.slice(0, row, row + 1), ids, {}, kernels::Write::add);
}

void RouterStatistics::add_choices(const Tensor& ids, Stream& stream) {
  if (!ids.device().on_host()) return count(0, ids, stream);
  const int32_t* id = ids.data<int32_t>();
  for (int64_t i = 0; i < ids.numel(); ++i)
    if (id[i] >= 0) ++counts[id[i]], ++assignments;
}

void RouterStatistics::add_kept(const Tensor& ids, Stream& stream) {
  some_may_be_dropped_ = true;
  if (!ids.device().on_host()) return count(1, ids, stream);
  const int32_t* id = ids.data<int32_t>();
  kept_ += std::count_if(id, id + ids.numel(), [](int32_t i) { return i >= 0; });
  dropped = assignments - kept_;
}

void RouterStatistics::add_loss(int64_t which, const Tensor& loss, Stream& stream) {
  require(loss.device().on_host() || sums_.losses.defined(), "[router] the statistics have no memory on the device");
  if (loss.device().on_host())
    (which == 0 ? aux_loss : z_loss) += read_to_host("router losses", loss, stream).scalar();
  else
    kernels::kernels(loss.device())
        .pointwise.sum(stream, sums_.losses.slice(0, which, which + 1), loss, kernels::Write::add);
}

void RouterStatistics::take(std::span<const int64_t> read_counts, std::span<const double> read_losses) {
  const auto chosen = read_counts.first(counts.size()), kept = read_counts.subspan(counts.size());
  counts.assign(chosen.begin(), chosen.end());
  assignments = std::accumulate(chosen.begin(), chosen.end(), int64_t{0});
  kept_ = std::accumulate(kept.begin(), kept.end(), int64_t{0});
  dropped = some_may_be_dropped_ ? assignments - kept_ : 0;
  aux_loss = read_losses[0], z_loss = read_losses[1];
}

ModelStatistics::ModelStatistics(int64_t moe_layers, int64_t experts, Device device) {
  RouterStatistics empty;
  empty.counts.assign(experts, 0);
  layers.assign(moe_layers, empty);
  if (device.on_host() || moe_layers == 0) return;
  counts_ = Tensor::zeros({moe_layers, 2, experts}, Dtype::i64, device);
  losses_ = Tensor::zeros({moe_layers, 2}, Dtype::f64, device);
  for (int64_t l = 0; l < moe_layers; ++l)
    layers[l].add_up_in({counts_.slice(0, l, l + 1).reshape({2, experts}), losses_.slice(0, l, l + 1).reshape({2})});
}

void ModelStatistics::reset(Stream& stream) {
  for (auto& s : layers) s.reset();
  for (const Tensor& t : {counts_, losses_})
    if (t.defined()) t.fill_bytes(0, stream);
}

void ModelStatistics::read(Stream& stream) {
  if (!counts_.defined()) return;
  const HostRead counts = read_to_host("step: router counts", counts_, stream),
                 losses = read_to_host("step: router losses", losses_, stream);
  const std::span read_counts = counts.wait<int64_t>();
  const std::span read_losses = losses.wait<double>();
  const size_t of_layer = 2 * counts_.dim(2);
  for (size_t l = 0; l < layers.size(); ++l)
    layers[l].take(read_counts.subspan(l * of_layer, of_layer), read_losses.subspan(2 * l, 2));
}

}  // namespace hexad::layers
