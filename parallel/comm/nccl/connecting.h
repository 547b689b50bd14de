// Connections between the ranks of a communicator, made before they are needed.
#pragma once

#include "parallel/comm/nccl/card_rank.h"
#include "parallel/comm/uses.h"

namespace hexad::comm::nccl {

/// One rank of a communicator, and the stream of its operations.
struct CommunicatorRank {
  ncclComm_t communicator;
  TrafficStream& stream;
  int rank, size;
};

/// Returns memory for connect(), on `device`. Call it before the memory of connections is measured.
Tensor connecting_buffer(Uses uses, int ranks, device::Device device);

/// Launches one unused operation of each kind in `uses` except messages. NCCL connects the ranks, and takes memory for
/// this, at the first operation of a kind. For some kinds NCCL chooses an algorithm by size and connects each algorithm
/// separately. For these kinds, launches several operations of different sizes. The host waits until the other ranks
/// launch their operations.
void connect(CardRank& card, const CommunicatorRank& me, Uses uses, const Tensor& buffer);

}  // namespace hexad::comm::nccl
