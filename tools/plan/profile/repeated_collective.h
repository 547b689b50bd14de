// Collectives and sends that can be started many times.
#pragma once

#include <functional>
#include <memory>

#include "parallel/comm/process_group.h"
#include "tools/plan/cluster.h"
#include "tools/plan/profile/operand_memory.h"

namespace hexad::plan {

/// A collective or send that can be started many times. It shares ownership of the memory of its tensors (Operands),
/// which other exchanges may also use. The process group must outlive the object.
struct Exchange {
  int64_t wire_bytes;  // bytes that a rank sends to other ranks
  std::function<device::Event()> start;
};

/// Returns an upper bound of the memory that an exchange needs, in bytes. Each of the exchange's `ranks` ranks sends
/// `bytes` bytes.
int64_t bytes_of_exchange(int64_t bytes, int ranks);

/// Makes an exchange of f32 zeros with equal splits. `bytes` is rounded up to whole elements for every rank. For
/// `send`, each rank sends to the next rank and receives from the previous rank. The event of the exchange is the
/// event of the receive. Each start takes its tensors from `operands`.
Exchange make_exchange(Collective operation, const comm::ProcessGroup& group, int64_t bytes,
                       const std::shared_ptr<Operands>& operands, device::Device device);

/// Makes an exchange with separate memory of bytes_of_exchange() bytes. Every start uses this memory again.
Exchange make_exchange(Collective operation, const comm::ProcessGroup& group, int64_t bytes, device::Device device);

}  // namespace hexad::plan
