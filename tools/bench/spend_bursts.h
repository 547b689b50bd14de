// The links of the testbed pass a burst at once after a rest, and connections that rested begin slowly. Those of clusters
// do neither, nor do the links of a profile, which are measured without rest.
#pragma once

#include <algorithm>

#include "parallel/comm/process_group.h"

namespace hexad::bench {

/// Keeps every link busy for as long as its burst lasts; between ranks that share memory it costs nothing. Collective.
inline void spend_bursts(const comm::ProcessGroup& world, device::DeviceContext& context) {
  constexpr int64_t bytes = 256 << 10;  // of a rank to all others, twice the larger testbed's burst
  if (world.size() == 1) return;
  const auto ranks = static_cast<size_t>(world.size());
  const int64_t to_each = bytes / 4 / (world.size() - 1);
  std::vector<int64_t> counts(ranks, to_each);
  counts[static_cast<size_t>(world.rank())] = 0;
  const base::Shape shape{to_each * (world.size() - 1), 1};
  const auto rows = [&] { return tensor::Tensor::zeros(shape, tensor::Dtype::f32, context); };
  world.all_to_all(rows(), rows(), {counts, counts}, context.compute()).wait();
  world.barrier(context.compute()).wait();
}

}  // namespace hexad::bench
