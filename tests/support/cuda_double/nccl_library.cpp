// Replacement of parallel/comm/nccl/library.cpp, with the double's functions.
#include "parallel/comm/nccl/library.h"

#include "framework/base/error.h"
#include "parallel/comm/world.h"

namespace hexad::comm::nccl {

const Library& library() {
  if (announced_world_size() > 1)
    base::fail(base::ExitCode::resource,
               "the double of NCCL joins only threads of one process, but the ranks of this job are processes");
  static constexpr Library functions{
      .get_version = ncclGetVersion,
      .get_unique_id = ncclGetUniqueId,
      .comm_init_rank_config = ncclCommInitRankConfig,
      .comm_split = ncclCommSplit,
      .comm_finalize = ncclCommFinalize,
      .comm_destroy = ncclCommDestroy,
      .comm_abort = ncclCommAbort,
      .comm_get_async_error = ncclCommGetAsyncError,
      .get_error_string = ncclGetErrorString,
      .get_last_error = ncclGetLastError,
      .comm_register = ncclCommRegister,
      .comm_deregister = ncclCommDeregister,
      .mem_alloc = ncclMemAlloc,
      .mem_free = ncclMemFree,
      .comm_window_register = ncclCommWindowRegister,
      .comm_window_deregister = ncclCommWindowDeregister,
      .group_start = ncclGroupStart,
      .group_end = ncclGroupEnd,
      .all_reduce = ncclAllReduce,
      .reduce_scatter = ncclReduceScatter,
      .all_gather = ncclAllGather,
      .broadcast = ncclBroadcast,
      .send = ncclSend,
      .receive = ncclRecv,
  };
  return functions;
}

}  // namespace hexad::comm::nccl
