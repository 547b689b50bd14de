// One collective, ready to be started again and again.
#pragma once

#include <functional>

#include "parallel/comm/process_group.h"
#include "tools/plan/cluster.h"

namespace hexad::plan {

/// Keeps its tensors; the group outlives it.
struct Exchange {
  int64_t wire_bytes;  // that a rank sends to others
  std::function<comm::Event()> start;
};

/// With tensors of f32 zeros, equal splits, and `bytes` rounded up to whole elements for every rank. As `send`, each
/// rank sends to the next and receives from the one before; the event is that of the receive.
Exchange make_exchange(Collective operation, const comm::ProcessGroup& group, int64_t bytes, tensor::Device device);

}  // namespace hexad::plan
