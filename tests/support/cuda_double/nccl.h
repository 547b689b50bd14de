// Interface of tests to the double of NCCL, whose ranks are threads of one process.
//
// As in NCCL, an operation blocks its stream until all ranks of the communicator have launched the operation. A waiting
// operation occupies thread blocks (CTAs) of its device. Operations of several communicators may together need more
// thread blocks than the device has. Then ranks that launch these operations in different orders hang. Ranks that
// launch them in different orders on one stream always hang.
//
// With NCCL_LAUNCH_ORDER_IMPLICIT=1, the operations of a device begin in the order of their launches, even if they
// belong to different communicators and streams. An operation does not wait for the end of earlier operations.
//
// The first operation of a communicator, and the first message of a pair, connect the ranks: the host waits until the
// other ranks launch the operation. Connections take memory of the device (nccl_buffers.h). To allocate this memory,
// the host waits for all work of the device. Without enough memory, the launch fails. Operations on which ranks
// disagree hang. Messages without a receiver or of another size than expected also hang, and so do operations for which
// only some ranks' buffers are registered. Sums are rounded at every step. As in NCCL's rings, each part of a sum
// starts at another rank.
#pragma once

#include <nccl.h>

#include <string>
#include <vector>

namespace hexad::cuda_double {

struct NcclCommunicator {
  std::string name;
  int rank = 0, ranks = 0, device = 0;
  ncclConfig_t config{};
};
/// Returns the communicators that were made and neither destroyed nor aborted.
std::vector<NcclCommunicator> nccl_communicators();
/// Returns the number of launches so far. A group counts once for each communicator.
int64_t nccl_launches();
/// Returns the bytes of a device that its communicators have taken to connect ranks.
int64_t nccl_bytes(int device);
/// Returns the number of buffers registered with all communicators together.
int64_t nccl_registrations();
/// Returns the number of wrong registrations so far: with a communicator that has ended, or with pages that were
/// unmapped.
int64_t nccl_registration_faults();
/// Makes later registrations succeed or fail.
void let_nccl_register(bool works);
/// Reports that pages are unmapped. Called by the double's driver.
void nccl_pages_go(const void* begin, int64_t bytes);
/// Sets the number of thread blocks that operations may use together on a device, 132 by default.
void set_nccl_room(int ctas);
/// Ends the ranks on `device`. Their peers get ncclRemoteError as their asynchronous error.
void lose_nccl_ranks(int device);

}  // namespace hexad::cuda_double
