// Communicators of NCCL's double: each rank's side, and the registry of all sides in the process.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/cuda_double/nccl_buffers.h"
#include "tests/support/cuda_double/nccl_clique.h"

namespace hexad::cuda_double {

/// One rank's side of a communicator. The ncclComm handle and the launched operations share the ownership of the side.
/// Guarded by the mutex of nccl_world().
struct NcclSide {
  static constexpr int default_ctas = 32;
  std::shared_ptr<Clique> clique;
  int rank = 0, device = 0;
  ncclConfig_t config{};
  ncclResult_t state = ncclSuccess;  // asynchronous state
  bool gone = false;                 // true after an abort
  int64_t collectives = 0, splits = 0, windows = 0;
  int64_t launched = 0, done = 0;             // counts of operations, which end in launch order over all streams
  std::map<uintptr_t, int64_t> registered{};  // begin -> bytes
  NcclBuffers buffers{};

  bool is_blocking() const { return config.blocking != 0; }
  /// Returns the number of thread blocks of an operation.
  int ctas() const { return config.maxCTAs == NCCL_CONFIG_UNDEF_INT ? default_ctas : config.maxCTAs; }
};
using NcclSidePtr = std::shared_ptr<NcclSide>;

/// Ranks that join with one unique id.
struct NcclBirth {
  std::shared_ptr<Clique> clique;
  std::map<int, NcclSide*> sides;
};

/// State of the double in this process. Guarded by the mutex of nccl_world().
struct NcclRegistry {
  std::map<uint64_t, NcclBirth> births;
  std::vector<NcclSidePtr> sides;            // sides that are neither destroyed nor aborted
  std::map<int, int> used;                   // thread blocks in use, by device
  std::map<int, std::set<int64_t>> waiting;  // numbers of the launches that have not begun, by device
  int ctas = 132;
  uint64_t ids = 0;
  int64_t launches = 0;
  int64_t registration_faults = 0;
  bool registers = true, maps_windows = true;
  int cards_per_node = 0;  // 0: all devices are on one node

  int node_of(int device) const { return cards_per_node ? device / cards_per_node : 0; }
};
NcclRegistry& nccl_registry();

/// Returns `result`, an error. ncclGetLastError() returns `why` on this thread until the next error.
ncclResult_t nccl_refusal(ncclResult_t result, std::string why);
/// Returns an error if the thread has chosen no device. At the end of a call, NCCL makes the thread's previous device
/// current again. This step would open device 0 if the thread had chosen no device.
ncclResult_t nccl_has_device(const char* call);
/// Returns ncclSuccess if the communicator may be used. Otherwise, returns the error.
ncclResult_t nccl_ready(ncclComm_t comm);

/// Wakes the threads in nccl_wait(). The caller holds the mutex of nccl_world().
inline void nccl_changed() { nccl_world().changed.notify_all(); }
template <class Holds>
void nccl_wait(Clique::Lock& lock, Holds holds) {
  nccl_world().changed.wait(lock, holds);
}

}  // namespace hexad::cuda_double

/// The structure behind ncclComm_t.
struct ncclComm {
  hexad::cuda_double::NcclSidePtr side;
};
