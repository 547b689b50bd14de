// Functions of NCCL. The program loads NCCL at the first use of a function, and therefore also starts on machines
// without NCCL.
#pragma once

#include <nccl.h>

#include <string_view>

namespace hexad::comm::nccl {

/// NCCL's functions. The members are named after the functions, without the prefix `nccl`.
struct Library {
  decltype(&::ncclGetVersion) get_version;
  decltype(&::ncclGetUniqueId) get_unique_id;
  decltype(&::ncclCommInitRankConfig) comm_init_rank_config;
  decltype(&::ncclCommSplit) comm_split;
  decltype(&::ncclCommFinalize) comm_finalize;
  decltype(&::ncclCommDestroy) comm_destroy;
  decltype(&::ncclCommAbort) comm_abort;
  decltype(&::ncclCommGetAsyncError) comm_get_async_error;
  decltype(&::ncclGetErrorString) get_error_string;
  decltype(&::ncclGetLastError) get_last_error;
  decltype(&::ncclCommRegister) comm_register;
  decltype(&::ncclCommDeregister) comm_deregister;
  decltype(&::ncclMemAlloc) mem_alloc;
  decltype(&::ncclMemFree) mem_free;
  decltype(&::ncclCommWindowRegister) comm_window_register;
  decltype(&::ncclCommWindowDeregister) comm_window_deregister;
  decltype(&::ncclGroupStart) group_start;
  decltype(&::ncclGroupEnd) group_end;
  decltype(&::ncclAllReduce) all_reduce;
  decltype(&::ncclReduceScatter) reduce_scatter;
  decltype(&::ncclAllGather) all_gather;
  decltype(&::ncclBroadcast) broadcast;
  decltype(&::ncclSend) send;
  decltype(&::ncclRecv) receive;
};

/// Returns the functions of NCCL. The first call loads the library. Throws Error(resource) with the reason if
/// libnccl.so.2 is missing or too old.
const Library& library();

/// Throws Error with `what` and NCCL's text if `result` is an error: Error(peer_lost) if a peer was lost,
/// Error(communication) in all other cases.
void check(const Library& library, ncclResult_t result, std::string_view what);

/// Combines all NCCL calls between the constructor and end() into one launch. end() performs the launch.
class GroupedCalls {
 public:
  explicit GroupedCalls(const Library& library) : library_(library) {
    check(library_, library_.group_start(), "beginning grouped calls");
  }
  ~GroupedCalls() {
    if (!ended_) static_cast<void>(library_.group_end());  // ignores the result, because an exception is in flight
  }
  GroupedCalls(const GroupedCalls&) = delete;
  GroupedCalls& operator=(const GroupedCalls&) = delete;
  void end() {
    ended_ = true;
    check(library_, library_.group_end(), "launching grouped calls");
  }

 private:
  const Library& library_;
  bool ended_ = false;
};

}  // namespace hexad::comm::nccl
