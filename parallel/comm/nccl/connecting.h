// Connects the ranks of a communicator before the connections are needed.
#pragma once

#include "parallel/comm/nccl/card_rank.h"
#include "parallel/comm/uses.h"

namespace hexad::comm::nccl {

/// A rank of a communicator, and the stream on which its operations run.
struct CommunicatorRank {
  ncclComm_t communicator;
  TrafficStream& stream;
  int rank, size;
};

/// Returns memory on `device` for connect(). Call it before the memory of connections is measured.
Tensor connecting_buffer(Uses uses, int ranks, device::Device device);

/// Launches an operation of each kind in `uses`, except messages, and ignores its result. NCCL connects the ranks, and
/// allocates memory for this, at the first operation of a kind. For some kinds, NCCL chooses an algorithm by size and
/// connects the ranks separately for each algorithm; then operations of several sizes are launched. The host waits
/// until the other ranks launch their operations.
void connect(CardRank& card, const CommunicatorRank& me, Uses uses, const Tensor& buffer);

}  // namespace hexad::comm::nccl
