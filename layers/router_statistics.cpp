#include "layers/router_statistics.h"

#include <algorithm>
#include <numeric>

#include "framework/tensor/host_read.h"

namespace hexad::layers {

void RouterStatistics::reset() {
  counts.assign(counts.size(), 0);
  assignments = dropped = kept_ = 0;
  aux_loss = z_loss = 0;
}

void RouterStatistics::count(int64_t row, const Tensor& ids, Stream& stream) {
  require(sums_.counts.defined() && row < sums_.counts.dim(0), "[router] nobody gave statistics a place for ",
          row == 0 ? "choices" : "kept slots", " on the device");
  kernels::kernels(ids.device())
      .router_loss.count(stream, sums_.counts.slice(0, row, row + 1), ids, {}, kernels::Write::add);
}

void RouterStatistics::add_choices(const Tensor& ids, Stream& stream) {
  if (!ids.device().on_host()) return count(0, ids, stream);
  const int32_t* id = ids.data<int32_t>();
  for (int64_t i = 0; i < ids.numel(); ++i)
    if (id[i] >= 0) ++counts[static_cast<size_t>(id[i])], ++assignments;
}

void RouterStatistics::add_kept(const Tensor& ids, Stream& stream) {
  if (!ids.device().on_host()) return count(1, ids, stream);
  const int32_t* id = ids.data<int32_t>();
  kept_ += std::count_if(id, id + ids.numel(), [](int32_t i) { return i >= 0; });
  dropped = assignments - kept_;
}

void RouterStatistics::add_loss(int64_t which, const Tensor& loss, Stream& stream) {
  require(loss.device().on_host() || sums_.losses.defined(), "[router] nobody gave statistics a place on the device");
  if (loss.device().on_host())
    (which == 0 ? aux_loss : z_loss) += read_to_host("router losses", loss, stream).scalar();
  else
    kernels::kernels(loss.device())
        .pointwise.sum(stream, sums_.losses.slice(0, which, which + 1), loss, kernels::Write::add);
}

void RouterStatistics::take(std::span<const int64_t> more_counts, std::span<const double> more_losses) {
  for (size_t e = 0; e < counts.size(); ++e) counts[e] += more_counts[e], assignments += more_counts[e];
  const auto kept = more_counts.subspan(counts.size());
  if (!kept.empty()) kept_ += std::accumulate(kept.begin(), kept.end(), int64_t{0}), dropped = assignments - kept_;
  aux_loss += more_losses[0], z_loss += more_losses[1];
}

}  // namespace hexad::layers
