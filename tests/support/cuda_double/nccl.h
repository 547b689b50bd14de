// Interface of tests to the double of NCCL, whose ranks are threads of one process.
//
// As in NCCL, an operation is launched on a stream and holds it until all ranks of the communicator have launched
// theirs. While it waits, it occupies thread blocks (CTAs) of its device. If those of several communicators do not fit
// on the device together, ranks that launch them in different orders hang; so do ranks that use one stream for them.
// The first operation of a communicator, and the first message of a pair, connect: the host waits until the other ranks
// launch theirs. Operations on which ranks disagree hang, too. So do messages without a receiver or of another size
// than expected, and operations for which only some ranks' buffers are registered. Sums are rounded at every step. As
// in NCCL's rings, each part of a sum starts at another rank.
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
/// Launches so far, a group counting once a communicator.
int64_t nccl_launches();
/// Buffers that are registered with communicators, together.
int64_t nccl_registrations();
/// Counts wrong registrations so far: with a communicator that ended before, or with pages that went before.
int64_t nccl_registration_faults();
/// From now on, registering succeeds or fails.
void let_nccl_register(bool works);
/// For the double's driver: pages are unmapped.
void nccl_pages_go(const void* begin, int64_t bytes);
/// The thread blocks that operations may take up together on a device; 132 if nobody says otherwise.
void set_nccl_room(int ctas);
/// The ranks on `device` are gone: their peers get ncclRemoteError as their asynchronous error.
void lose_nccl_ranks(int device);

}  // namespace hexad::cuda_double
