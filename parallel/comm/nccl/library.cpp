#include "parallel/comm/nccl/library.h"

#include "framework/base/error.h"
#include "framework/device/cuda/shared_library.h"

namespace hexad::comm::nccl {
namespace {

constexpr const char* file = "libnccl.so.2";

std::string text_of(int version) { return base::cat(version / 10000, ".", version / 100 % 100, ".", version % 100); }

Library load() {
  const device::cuda::SharedLibrary nccl(file);
  Library l{};
  l.get_version = nccl.function<decltype(ncclGetVersion)>("ncclGetVersion");
  l.get_unique_id = nccl.function<decltype(ncclGetUniqueId)>("ncclGetUniqueId");
  l.comm_init_rank_config = nccl.function<decltype(ncclCommInitRankConfig)>("ncclCommInitRankConfig");
  l.comm_split = nccl.function<decltype(ncclCommSplit)>("ncclCommSplit");
  l.comm_finalize = nccl.function<decltype(ncclCommFinalize)>("ncclCommFinalize");
  l.comm_destroy = nccl.function<decltype(ncclCommDestroy)>("ncclCommDestroy");
  l.comm_abort = nccl.function<decltype(ncclCommAbort)>("ncclCommAbort");
  l.comm_get_async_error = nccl.function<decltype(ncclCommGetAsyncError)>("ncclCommGetAsyncError");
  l.get_error_string = nccl.function<decltype(ncclGetErrorString)>("ncclGetErrorString");
  l.get_last_error = nccl.function<decltype(ncclGetLastError)>("ncclGetLastError");
  l.comm_register = nccl.function<decltype(ncclCommRegister)>("ncclCommRegister");
  l.comm_deregister = nccl.function<decltype(ncclCommDeregister)>("ncclCommDeregister");
  l.mem_alloc = nccl.function<decltype(ncclMemAlloc)>("ncclMemAlloc");
  l.mem_free = nccl.function<decltype(ncclMemFree)>("ncclMemFree");
  l.comm_window_register = nccl.function<decltype(ncclCommWindowRegister)>("ncclCommWindowRegister");
  l.comm_window_deregister = nccl.function<decltype(ncclCommWindowDeregister)>("ncclCommWindowDeregister");
  l.group_start = nccl.function<decltype(ncclGroupStart)>("ncclGroupStart");
  l.group_end = nccl.function<decltype(ncclGroupEnd)>("ncclGroupEnd");
  l.all_reduce = nccl.function<decltype(ncclAllReduce)>("ncclAllReduce");
  l.reduce_scatter = nccl.function<decltype(ncclReduceScatter)>("ncclReduceScatter");
  l.all_gather = nccl.function<decltype(ncclAllGather)>("ncclAllGather");
  l.broadcast = nccl.function<decltype(ncclBroadcast)>("ncclBroadcast");
  l.send = nccl.function<decltype(ncclSend)>("ncclSend");
  l.receive = nccl.function<decltype(ncclRecv)>("ncclRecv");
  int version = 0;
  check(l, l.get_version(&version), "querying the version");
  // An older library does not accept configurations of communicators with the layout of this program's NCCL headers.
  if (version < NCCL_VERSION_CODE / 100 * 100)
    base::fail(base::ExitCode::resource, file, " is NCCL ", text_of(version), ", but this program needs NCCL ",
               NCCL_MAJOR, ".", NCCL_MINOR,
               " or later; install that version, or use distributed.device_collectives: host");
  return l;
}

}  // namespace

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

}  // namespace hexad::comm::nccl
