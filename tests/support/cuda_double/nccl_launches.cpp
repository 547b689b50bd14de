// NCCL's groups, collectives and messages, implemented by the double.
#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "tests/support/cuda_double/memory.h"
#include "tests/support/cuda_double/nccl_reduce.h"
#include "tests/support/cuda_double/nccl_side.h"
#include "tests/support/cuda_double/stream.h"

using namespace hexad::cuda_double;

namespace {

using Lock = Clique::Lock;

// Launch of one collective or of several messages on a stream.
struct Launch {
  NcclSidePtr side;
  cudaStream_t stream;
  std::vector<NcclCall> calls;  // one collective, or messages
};
thread_local int depth = 0;
thread_local std::vector<Launch> grouped;  // launches of this thread between ncclGroupStart and ncclGroupEnd

// True if the launches of a device begin in the order of the calls. As in NCCL from CUDA 12.3 on, a launch does not
// wait for the end of earlier launches of other communicators.
bool begins_in_order() {
  const char* text = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  return text && std::string_view(text) == "1";
}

// Positions of a launch in several orders.
struct Numbers {
  int64_t place;       // position among the communicator's launches
  int64_t collective;  // position among the communicator's collectives; 0 for messages
  int64_t launch;      // position among all launches
  bool in_order;       // true if the launch begins only after all earlier launches of its device have begun
};

// Runs a launch on the stream's thread.
void run(const Launch& launch, const Numbers& numbers) {
  NcclSide& s = *launch.side;
  Lock lock(nccl_world().mutex);
  int& used = nccl_registry().used[s.device];
  std::set<int64_t>& waiting = nccl_registry().waiting[s.device];
  const int ctas = std::min(s.ctas(), nccl_registry().ctas);
  nccl_wait(lock, [&] {
    const bool has_turn = !numbers.in_order || *waiting.begin() == numbers.launch;
    return s.gone || (has_turn && s.done == numbers.place && used + ctas <= nccl_registry().ctas);
  });
  waiting.erase(numbers.launch);
  nccl_changed();
  if (!s.gone) {
    used += ctas;
    launch.calls.front().is_message()
        ? s.clique->messages(lock, s.rank, launch.calls, s.gone)
        : s.clique->collective(lock, s.rank, numbers.collective, launch.calls.front(), s.gone);
    used -= ctas;
  }
  ++s.done;
  nccl_changed();
}

ncclResult_t start(Launch launch) {
  Lock lock(nccl_world().mutex);
  NcclSide& s = *launch.side;
  if (s.gone) return nccl_refusal(ncclInvalidUsage, "the communicator was aborted");
  if (s.is_blocking()) {
    const NcclBuffers::Place place{s.device, s.rank, s.ctas(), s.clique->nodes()};
    if (s.buffers.lack(place, launch.calls)) {  // NCCL takes memory, for which CUDA may wait for the device
      lock.unlock();
      static_cast<void>(synchronize_device(s.device));
      lock.lock();
      if (s.gone) return nccl_refusal(ncclInternalError, "aborted while connecting");
    }
    if (!s.buffers.connect(place, launch.calls))
      return nccl_refusal(ncclUnhandledCudaError, "Cuda failure 2 'out of memory'");
    if (!s.clique->connect(lock, s.rank, launch.calls, s.gone))
      return nccl_refusal(ncclInternalError, "aborted while connecting");
  }
  const bool message = launch.calls.front().is_message();
  const Numbers numbers{.place = s.launched++,
                        .collective = message ? 0 : s.collectives++,
                        .launch = nccl_registry().launches++,
                        .in_order = begins_in_order()};
  nccl_registry().waiting[s.device].insert(numbers.launch);
  lock.unlock();
  const cudaStream_t stream = launch.stream;
  enqueue(stream, [launch = std::move(launch), numbers] { run(launch, numbers); });
  return ncclSuccess;
}

bool is_registered(const NcclSide& s, const void* p, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(p);
  auto it = s.registered.upper_bound(begin);
  if (it == s.registered.begin()) return false;
  --it;
  return begin + bytes <= it->first + static_cast<uintptr_t>(it->second);
}

ncclResult_t submit(ncclComm_t comm, cudaStream_t stream, NcclCall call, size_t in_bytes, size_t out_bytes) {
  if (const ncclResult_t r = nccl_has_device("an operation of NCCL"); r != ncclSuccess) return r;
  {
    Lock lock(nccl_world().mutex);
    if (const ncclResult_t r = nccl_ready(comm); r != ncclSuccess) return r;
    call.registered = !call.is_message() && is_registered(*comm->side, call.in, in_bytes) &&
                      is_registered(*comm->side, call.out, out_bytes);
  }
  const NcclSide& s = *comm->side;
  if (device_of(stream) != s.device)
    return nccl_refusal(ncclUnhandledCudaError, "the stream and the communicator are on different devices");
  const auto fits = [](const void* p, size_t bytes) { return bytes == 0 || reaches(p, static_cast<int64_t>(bytes)); };
  if (!fits(call.in, in_bytes) || !fits(call.out, out_bytes))
    return nccl_refusal(ncclInvalidArgument, "a buffer is not memory that the device can access");
  const bool reduces = call.kind == NcclKind::all_reduce || call.kind == NcclKind::reduce_scatter;
  if (reduces && !can_reduce(call.type))
    return nccl_refusal(ncclInvalidArgument, "the double does not reduce elements of this type");
  if (call.peer < 0 || call.peer >= s.clique->ranks())
    return nccl_refusal(ncclInvalidArgument, "the peer or root is not a rank of the communicator");
  if (!call.is_message() && call.count == 0) return ncclSuccess;  // NCCL discards such a call
  const auto same = [&](const Launch& l) {
    return l.side == comm->side && l.stream == stream && l.calls.front().is_message();
  };
  const auto group = std::find_if(grouped.begin(), grouped.end(), same);
  if (call.is_message() && group != grouped.end())
    group->calls.push_back(call);
  else
    grouped.push_back({comm->side, stream, {call}});
  return depth > 0 ? ncclSuccess : (++depth, ncclGroupEnd());
}

}  // namespace

extern "C" {

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (depth == 0) return nccl_refusal(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--depth > 0) return ncclSuccess;
  for (Launch& launch : std::exchange(grouped, {}))
    if (const ncclResult_t r = start(std::move(launch)); r != ncclSuccess) return r;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  const NcclCall call{NcclKind::all_reduce, in, out, count, type, op};
  return submit(comm, stream, call, call.bytes(), call.bytes());
}

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  const NcclCall call{NcclKind::reduce_scatter, in, out, count, type, op};
  const size_t ranks = comm && comm->side ? static_cast<size_t>(comm->side->clique->ranks()) : 1;
  return submit(comm, stream, call, ranks * call.bytes(), call.bytes());
}

ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  const NcclCall call{NcclKind::all_gather, in, out, count, type};
  const size_t ranks = comm && comm->side ? static_cast<size_t>(comm->side->clique->ranks()) : 1;
  return submit(comm, stream, call, call.bytes(), ranks * call.bytes());
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  const NcclCall call{NcclKind::broadcast, in, out, count, type, ncclSum, root};
  return submit(comm, stream, call, call.bytes(), call.bytes());
}

ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const NcclCall call{NcclKind::send, in, nullptr, count, type, ncclSum, peer};
  return submit(comm, stream, call, call.bytes(), 0);
}

ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  const NcclCall call{NcclKind::receive, nullptr, out, count, type, ncclSum, peer};
  return submit(comm, stream, call, 0, call.bytes());
}

}  // extern "C"
