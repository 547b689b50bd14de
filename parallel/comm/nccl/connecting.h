// Connection of the ranks of a communicator ahead of its first operation.
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

/// Returns memory on `device` for connect(). Call it before measuring the memory that connections need.
Tensor connecting_buffer(Uses uses, int ranks, device::Device device);

/// Connects the ranks: launches an operation of each kind in `uses`, except messages, and ignores its result. NCCL
/// connects ranks, and allocates memory for this, at the first operation of a kind. For some kinds, NCCL connects them
/// separately for each algorithm, which it chooses by size; operations of several sizes are then launched. The host
/// waits until the other ranks launch their operations.
void connect(CardRank& card, const CommunicatorRank& me, Uses uses, const Tensor& buffer);

}  // namespace hexad::comm::nccl
