#include "layers/router_statistics.h"

#include "framework/tensor/host_read.h"

namespace hexad::layers {

void RouterStatistics::reset() {
  counts.assign(counts.size(), 0);
  assignments = dropped = 0;
  aux_loss = z_loss = 0;
  device_counts_ = device_losses_ = {};
}

void RouterStatistics::add_choices(const Tensor& ids, Stream& stream) {
  if (ids.device().on_host()) {
    const int32_t* id = ids.data<int32_t>();
    for (int64_t i = 0; i < ids.numel(); ++i)
      if (id[i] >= 0) ++counts[static_cast<size_t>(id[i])], ++assignments;
    return;
  }
  using kernels::Write;
  const Write write = device_counts_.defined() ? Write::add : Write::replace;
  if (write == Write::replace)
    device_counts_ = Tensor::empty({1, static_cast<int64_t>(counts.size())}, Dtype::i64, ids.device());
  kernels::kernels(ids.device()).router_loss.count(stream, device_counts_, ids, {}, write);
}

void RouterStatistics::add_loss(int64_t which, const Tensor& loss, Stream& stream) {
  if (loss.device().on_host()) {
    (which == 0 ? aux_loss : z_loss) += read_to_host("router losses", loss, stream).scalar();
    return;
  }
  if (!device_losses_.defined()) device_losses_ = Tensor::zeros({2}, Dtype::f64, loss.device());
  kernels::kernels(loss.device())
      .pointwise.sum(stream, device_losses_.slice(0, which, which + 1), loss, kernels::Write::add);
}

void RouterStatistics::collect(Stream& stream) {
  if (device_counts_.defined()) {
    const HostRead read = read_to_host("router counts", device_counts_, stream);
    const auto values = read.wait<int64_t>();
    for (size_t e = 0; e < counts.size(); ++e) counts[e] += values[e], assignments += values[e];
  }
  if (device_losses_.defined()) {
    const HostRead read = read_to_host("router losses", device_losses_, stream);
    aux_loss += read.wait<double>()[0], z_loss += read.wait<double>()[1];
  }
  device_counts_ = device_losses_ = {};
}

}  // namespace hexad::layers
