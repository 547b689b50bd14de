// Connection of the ranks of a communicator before its first operation of each kind.
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

/// Returns a buffer on `device` for connect(). Allocate the buffer before CardRank::memory_taken() measures the memory
/// of connections.
Tensor connecting_buffer(Uses uses, int ranks, device::Device device);

/// Connects the ranks for the kinds in `uses`, except messages: launches operations and ignores their results. NCCL
/// connects ranks, and allocates memory for the connection, at the first operation of a kind. Some kinds have several
/// algorithms. NCCL chooses the algorithm by the size of the operation, and connects ranks separately for each
/// algorithm. connect() therefore launches operations of several sizes for these kinds. The host waits until the other
/// ranks have launched their operations.
void connect(CardRank& card, const CommunicatorRank& me, Uses uses, const Tensor& buffer);

}  // namespace hexad::comm::nccl
