// Test interface of the NCCL double, whose ranks are threads of one process.
//
// As in NCCL, a collective blocks its stream until the streams of all ranks of the communicator have reached it. A
// message blocks its stream until the peer's stream has reached the matching call. A waiting operation occupies thread
// blocks (CTAs) of its device. Operations of several communicators may together need more thread blocks than the device
// has. Ranks that launch such operations in different orders can hang. Ranks that launch operations in different orders
// on one stream always hang.
//
// With NCCL_LAUNCH_ORDER_IMPLICIT=1, the operations of a device begin in the order of their launches, also across
// communicators and streams. An operation does not wait for the end of earlier operations of other communicators.
//
// In a blocking communicator, ranks are connected by the first collective, and by the first message in each direction
// of a pair. The host then waits until the other ranks launch the matching operation. Connections take memory of the
// device (nccl_buffers.h). To allocate this memory, the host waits for all work of the device. The launch fails if the
// device has too little memory.
//
// Collectives hang if the ranks call different collectives, or if only some ranks' buffers are registered. Messages
// hang if they have no receiver, or if the receiver expects another size. Sums are rounded at every step. As in NCCL's
// rings, each part of a sum starts at a different rank.
#pragma once

#include <nccl.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace hexad::cuda_double {

/// A rank's membership in a communicator.
struct NcclCommunicator {
  std::string name;
  int rank = 0, ranks = 0, device = 0;
  ncclConfig_t config{};
};
/// Returns the communicators that were neither destroyed nor aborted: one entry for each of their ranks.
std::vector<NcclCommunicator> nccl_communicators();
/// Returns the number of launches of all ranks so far. Grouped messages of a communicator on one stream count once.
int64_t nccl_launches();
/// Returns the bytes of a device that its communicators have taken to connect ranks.
int64_t nccl_bytes(int device);
/// Returns the number of current registrations, summed over the ranks of all communicators.
int64_t nccl_registrations();
/// Returns the number of faults so far. A fault is a registration that still existed when ncclCommDestroy ended its
/// communicator, or when its pages were unmapped.
int64_t nccl_registration_faults();

/// Change of the double during the lifetime of the object. The destructor restores the previous state, even if a rank
/// throws.
class NcclChange {
 public:
  /// Makes each `cards` consecutive devices a separate node, for communicators that are made after this call. By
  /// default, all devices are on one node. Ranks of different nodes are connected over a network, and their buffers
  /// have other sizes (nccl_buffers.h). Windows of a communicator on several nodes are not mapped.
  [[nodiscard]] static NcclChange cards_per_node(int cards);
  /// Makes registrations fail.
  [[nodiscard]] static NcclChange no_registrations();
  /// Leaves windows unmapped. As in NCCL 2.28, their registration succeeds nevertheless.
  [[nodiscard]] static NcclChange no_mapped_windows();
  ~NcclChange() { restore_(); }
  NcclChange(const NcclChange&) = delete;
  NcclChange& operator=(const NcclChange&) = delete;

 private:
  explicit NcclChange(std::function<void()> restore) : restore_(std::move(restore)) {}
  const std::function<void()> restore_;
};

/// Counts a fault for each registration that overlaps these pages. The driver's double calls this function before it
/// unmaps the pages.
void nccl_pages_go(const void* begin, int64_t bytes);
/// Simulates the loss of the ranks on `device`: ncclRemoteError becomes the asynchronous error of their peers on other
/// devices.
void lose_nccl_ranks(int device);

}  // namespace hexad::cuda_double
