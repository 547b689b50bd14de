#include "tests/support/cuda_double/nccl.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "tests/support/cuda_double/device.h"
#include "tests/support/cuda_double/memory.h"
#include "tests/support/cuda_double/nccl_buffers.h"
#include "tests/support/cuda_double/nccl_clique.h"
#include "tests/support/cuda_double/nccl_reduce.h"
#include "tests/support/cuda_double/nccl_windows.h"
#include "tests/support/cuda_double/stream.h"

using namespace hexad::cuda_double;
using Lock = std::unique_lock<std::mutex>;

namespace {

constexpr int default_ctas = 32, finalizing = -1;

// One rank's side of a communicator. The ncclComm handle and the launched operations share its ownership. Guarded by
// the mutex of nccl_world().
struct Side {
  std::shared_ptr<Clique> clique;
  int rank = 0, device = 0;
  ncclConfig_t config{};
  ncclResult_t state = ncclSuccess;  // asynchronous state
  bool gone = false;                 // true after an abort
  int64_t collectives = 0, splits = 0, windows = 0;
  int64_t launched = 0, done = 0;             // numbers of operations, which end in launch order over all streams
  std::map<uintptr_t, int64_t> registered{};  // begin -> bytes
  NcclBuffers buffers{};
};
using SidePtr = std::shared_ptr<Side>;

}  // namespace

struct ncclComm {
  SidePtr side;
};

namespace {

// Ranks that join with one unique id.
struct Birth {
  std::shared_ptr<Clique> clique;
  std::map<int, Side*> sides;
};

struct Registry {
  std::map<uint64_t, Birth> births;
  std::vector<SidePtr> sides;                // sides that are neither destroyed nor aborted
  std::map<int, int> used;                   // thread blocks in use, by device
  std::map<int, std::set<int64_t>> waiting;  // numbers of the launches that have not begun, by device
  int ctas = 132;
  uint64_t ids = 0;
  int64_t launches = 0;
  int64_t registration_faults = 0;
  bool registers = true, maps_windows = true;
};
Registry& registry() {
  static Registry all;
  return all;
}

thread_local std::string last_error;
ncclResult_t refuse(ncclResult_t result, std::string why) {
  last_error = std::move(why);
  return result;
}

void changed() { nccl_world().changed.notify_all(); }
template <class Holds>
void wait(Lock& lock, Holds holds) {
  nccl_world().changed.wait(lock, holds);
}

// Returns an error if the thread has chosen no device. At the end of a call, NCCL makes the thread's previous device
// current again. Without a chosen device, this would open device 0.
ncclResult_t has_device(const char* call) {
  return require_device(call) == cudaSuccess ? ncclSuccess
                                             : refuse(ncclUnhandledCudaError, "the thread has chosen no device");
}

bool is_blocking(const Side& s) { return s.config.blocking != 0; }

// Returns ncclSuccess if the communicator may be used; otherwise the error.
ncclResult_t ready(ncclComm_t comm) {
  if (!comm || !comm->side) return refuse(ncclInvalidArgument, "the communicator is null");
  if (comm->side->gone) return refuse(ncclInvalidUsage, "the communicator was aborted");
  if (comm->side->state == ncclInProgress)
    return refuse(ncclInvalidArgument, "the communicator is used before its last call has ended");
  return comm->side->state;
}

ncclResult_t take_config(Side& side, const ncclConfig_t* config) {
  side.config = NCCL_CONFIG_INITIALIZER;
  if (!config) return ncclSuccess;
  if (config->magic != side.config.magic || config->size != sizeof(ncclConfig_t))
    return refuse(ncclInvalidArgument, "the configuration was not initialized");
  if (config->minCTAs != NCCL_CONFIG_UNDEF_INT && config->maxCTAs != NCCL_CONFIG_UNDEF_INT &&
      (config->minCTAs < 1 || config->minCTAs > config->maxCTAs))
    return refuse(ncclInvalidArgument, "minCTAs is not between 1 and maxCTAs");
  if (config->trafficClass != NCCL_CONFIG_UNDEF_INT && config->trafficClass < 0)
    return refuse(ncclInvalidArgument, "trafficClass is negative");
  side.config = *config;
  return ncclSuccess;
}

SidePtr make_side(const std::shared_ptr<Clique>& clique, int rank, int device) {
  auto side = std::make_shared<Side>();
  side->clique = clique, side->rank = rank, side->device = device;
  return side;
}

// Calls `finish`, which waits for the other ranks. If the communicator is blocking, calls `finish` here. Otherwise
// calls it on another thread, and its result becomes the state of the side.
template <class F>
ncclResult_t complete(Lock& lock, const SidePtr& side, const F& finish) {
  if (is_blocking(*side)) return finish(lock);
  side->state = ncclInProgress;
  std::thread([side, finish] {
    Lock own(nccl_world().mutex);
    side->state = finish(own);
    changed();
  }).detach();
  return ncclInProgress;
}

// Ends a communicator. With `faults`, each buffer that is still registered counts as a fault.
void end(ncclComm_t comm, bool faults) {
  if (faults) registry().registration_faults += static_cast<int64_t>(comm->side->registered.size());
  comm->side->registered.clear();
  comm->side->buffers.free(comm->side->device);
  std::erase(registry().sides, comm->side);
  changed();
}

// Launch of one collective or of several messages on a stream.
struct Launch {
  SidePtr side;
  cudaStream_t stream;
  std::vector<NcclCall> calls;  // one collective, or messages
};
thread_local int depth = 0;
thread_local std::vector<Launch> grouped;  // launches of this thread between ncclGroupStart and ncclGroupEnd

int ctas_of(const Side& s) { return s.config.maxCTAs == NCCL_CONFIG_UNDEF_INT ? default_ctas : s.config.maxCTAs; }

// True if the launches of a device begin in the order of the calls. As in NCCL from CUDA 12.3 on, a launch does not
// wait for the end of earlier launches of other communicators.
bool begins_in_order() {
  const char* text = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  return text && std::string_view(text) == "1";
}

// Positions of a launch in several orders.
struct Numbers {
  int64_t place;       // position among the communicator's launches
  int64_t collective;  // position among the communicator's collectives
  int64_t launch;      // position among all launches
  bool in_order;       // true if it begins only after all earlier launches of its device have begun
};

// Runs a launch on the stream's thread.
void run(const Launch& launch, const Numbers& numbers) {
  Side& s = *launch.side;
  Lock lock(nccl_world().mutex);
  int& used = registry().used[s.device];
  std::set<int64_t>& waiting = registry().waiting[s.device];
  const int ctas = std::min(ctas_of(s), registry().ctas);
  wait(lock, [&] {
    const bool has_turn = !numbers.in_order || *waiting.begin() == numbers.launch;
    return s.gone || (has_turn && s.done == numbers.place && used + ctas <= registry().ctas);
  });
  waiting.erase(numbers.launch);
  changed();
  if (!s.gone) {
    used += ctas;
    launch.calls.front().is_message()
        ? s.clique->messages(lock, s.rank, launch.calls, s.gone)
        : s.clique->collective(lock, s.rank, numbers.collective, launch.calls.front(), s.gone);
    used -= ctas;
  }
  ++s.done;
  changed();
}

ncclResult_t start(Launch launch) {
  Lock lock(nccl_world().mutex);
  Side& s = *launch.side;
  if (s.gone) return refuse(ncclInvalidUsage, "the communicator was aborted");
  if (is_blocking(s)) {
    const NcclBuffers::Place place{s.device, s.rank, s.clique->ranks(), ctas_of(s)};
    if (s.buffers.lack(place, launch.calls)) {  // NCCL takes memory, for which CUDA may wait for the device
      lock.unlock();
      static_cast<void>(synchronize_device(s.device));
      lock.lock();
      if (s.gone) return refuse(ncclInternalError, "aborted while connecting");
    }
    if (!s.buffers.connect(place, launch.calls))
      return refuse(ncclUnhandledCudaError, "Cuda failure 2 'out of memory'");
    if (!s.clique->connect(lock, s.rank, launch.calls, s.gone))
      return refuse(ncclInternalError, "aborted while connecting");
  }
  const bool message = launch.calls.front().is_message();
  const Numbers numbers{.place = s.launched++,
                        .collective = message ? 0 : s.collectives++,
                        .launch = registry().launches++,
                        .in_order = begins_in_order()};
  registry().waiting[s.device].insert(numbers.launch);
  lock.unlock();
  const cudaStream_t stream = launch.stream;
  enqueue(stream, [launch = std::move(launch), numbers] { run(launch, numbers); });
  return ncclSuccess;
}

bool is_registered(const Side& s, const void* p, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(p);
  auto it = s.registered.upper_bound(begin);
  if (it == s.registered.begin()) return false;
  --it;
  return begin + bytes <= it->first + static_cast<uintptr_t>(it->second);
}

ncclResult_t submit(ncclComm_t comm, cudaStream_t stream, NcclCall call, size_t in_bytes, size_t out_bytes) {
  {
    Lock lock(nccl_world().mutex);
    if (const ncclResult_t r = ready(comm); r != ncclSuccess) return r;
    call.registered = !call.is_message() && is_registered(*comm->side, call.in, in_bytes) &&
                      is_registered(*comm->side, call.out, out_bytes);
  }
  const Side& s = *comm->side;
  if (device_of(stream) != s.device)
    return refuse(ncclUnhandledCudaError, "the stream is of another device than the communicator");
  const auto fits = [](const void* p, size_t bytes) { return bytes == 0 || reaches(p, static_cast<int64_t>(bytes)); };
  if (!fits(call.in, in_bytes) || !fits(call.out, out_bytes))
    return refuse(ncclInvalidArgument, "a buffer is not memory of the device");
  const bool reduces = call.kind == NcclKind::all_reduce || call.kind == NcclKind::reduce_scatter;
  if (reduces && !can_reduce(call.type)) return refuse(ncclInvalidArgument, "the double does not reduce such elements");
  if (call.peer < 0 || call.peer >= s.clique->ranks()) return refuse(ncclInvalidArgument, "there is no such rank");
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

namespace hexad::cuda_double {

std::vector<NcclCommunicator> nccl_communicators() {
  Lock lock(nccl_world().mutex);
  std::vector<NcclCommunicator> all;
  for (const SidePtr& s : registry().sides) {
    const char* name = s->config.commName;  // the caller keeps the name alive, as NCCL requires
    all.push_back({name ? name : "", s->rank, s->clique->ranks(), s->device, s->config});
  }
  return all;
}

int64_t nccl_launches() {
  Lock lock(nccl_world().mutex);
  return registry().launches;
}

int64_t nccl_bytes(int device) {
  Lock lock(nccl_world().mutex);
  int64_t all = 0;
  for (const SidePtr& s : registry().sides)
    if (s->device == device) all += s->buffers.bytes();
  return all;
}

int64_t nccl_registrations() {
  Lock lock(nccl_world().mutex);
  int64_t all = 0;
  for (const SidePtr& s : registry().sides) all += static_cast<int64_t>(s->registered.size());
  return all;
}

int64_t nccl_registration_faults() {
  Lock lock(nccl_world().mutex);
  return registry().registration_faults;
}

void let_nccl_register(bool works) {
  Lock lock(nccl_world().mutex);
  registry().registers = works;
}

void let_nccl_map_windows(bool maps) {
  Lock lock(nccl_world().mutex);
  registry().maps_windows = maps;
}

void nccl_pages_go(const void* begin, int64_t bytes) {
  const auto from = reinterpret_cast<uintptr_t>(begin), to = from + static_cast<uintptr_t>(bytes);
  Lock lock(nccl_world().mutex);
  for (const SidePtr& s : registry().sides)
    for (const auto& [first, size] : s->registered)
      if (first < to && from < first + static_cast<uintptr_t>(size)) ++registry().registration_faults;
}

void set_nccl_room(int ctas) {
  Lock lock(nccl_world().mutex);
  registry().ctas = ctas;
  changed();
}

void lose_nccl_ranks(int device) {
  Lock lock(nccl_world().mutex);
  for (const SidePtr& lost : registry().sides)
    for (const SidePtr& s : registry().sides)
      if (lost->device == device && s->device != device && s->clique == lost->clique) s->state = ncclRemoteError;
}

}  // namespace hexad::cuda_double

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  Lock lock(nccl_world().mutex);
  const uint64_t number = ++registry().ids;
  const int64_t process = getpid();
  *id = {};
  std::memcpy(id->internal, &number, sizeof number);
  std::memcpy(id->internal + sizeof number, &process, sizeof process);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (const ncclResult_t r = has_device(__func__); r != ncclSuccess) return r;
  uint64_t number = 0;
  int64_t process = 0;
  std::memcpy(&number, id.internal, sizeof number);
  std::memcpy(&process, id.internal + sizeof number, sizeof process);
  if (process != getpid()) return refuse(ncclSystemError, "the double reaches ranks of its own process only");
  if (rank < 0 || rank >= ranks) return refuse(ncclInvalidArgument, "there is no such rank");
  Lock lock(nccl_world().mutex);
  Birth& birth = registry().births[number];
  if (!birth.clique) birth.clique = std::make_shared<Clique>(ranks);
  const SidePtr side = make_side(birth.clique, rank, current_device());
  if (const ncclResult_t r = take_config(*side, config); r != ncclSuccess) return r;
  side->state = ncclInProgress;
  *comm = new ncclComm{side};
  registry().sides.push_back(side);
  birth.sides[rank] = side.get();
  if (birth.sides.size() == static_cast<size_t>(ranks)) {
    std::set<int> devices;
    for (const auto& [r, s] : birth.sides) devices.insert(s->device);
    const bool shared = devices.size() < birth.sides.size();
    for (const auto& [r, s] : birth.sides) s->state = shared ? ncclInvalidUsage : ncclSuccess;
    registry().births.erase(number);
    changed();
  }
  if (!is_blocking(*side)) return ncclInProgress;
  wait(lock, [&] { return side->gone || side->state != ncclInProgress; });
  if (side->state == ncclInvalidUsage) return refuse(ncclInvalidUsage, "two ranks are on one device");
  return side->gone ? ncclInternalError : side->state;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  if (const ncclResult_t r = has_device(__func__); r != ncclSuccess) return r;
  Lock lock(nccl_world().mutex);
  *made = nullptr;
  if (const ncclResult_t r = ready(comm); r != ncclSuccess) return r;
  const SidePtr parent = comm->side;
  const bool takes_part = color != NCCL_SPLIT_NOCOLOR;
  const SidePtr side = make_side(nullptr, 0, parent->device);
  if (const ncclResult_t r = take_config(*side, config); r != ncclSuccess) return r;
  if (!config) side->config = parent->config;
  Clique::Gathering& here = parent->clique->gathering(parent->splits++);
  here.colors[parent->rank] = {color, key};
  const bool last = here.colors.size() == static_cast<size_t>(parent->clique->ranks());
  if (last) changed();
  const auto finish = [parent, side, color, takes_part, made, &here](Lock& locked) {
    wait(locked, [&] { return parent->gone || here.colors.size() == static_cast<size_t>(parent->clique->ranks()); });
    if (parent->gone) return refuse(ncclInternalError, "aborted while splitting");
    if (!takes_part) return ncclSuccess;
    std::vector<std::pair<int, int>> members;  // key, rank
    for (const auto& [rank, its] : here.colors)
      if (its.first == color) members.emplace_back(its.second, rank);
    std::sort(members.begin(), members.end());
    auto& clique = here.made[color];
    if (!clique) clique = std::make_shared<Clique>(static_cast<int>(members.size()));
    side->clique = clique;
    while (members[side->rank].second != parent->rank) ++side->rank;
    registry().sides.push_back(side);
    *made = new ncclComm{side};
    return ncclSuccess;
  };
  return complete(lock, parent, finish);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  Lock lock(nccl_world().mutex);
  if (const ncclResult_t r = ready(comm); r != ncclSuccess) return r;
  const SidePtr s = comm->side;
  Clique::Gathering& here = s->clique->gathering(finalizing);
  here.colors[s->rank] = {};
  changed();
  const auto finish = [s, &here](Lock& locked) {
    wait(locked, [&] {
      return s->gone || (s->done == s->launched && here.colors.size() == static_cast<size_t>(s->clique->ranks()));
    });
    return s->gone ? refuse(ncclInternalError, "aborted while finalizing") : ncclSuccess;
  };
  return complete(lock, s, finish);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (const ncclResult_t r = has_device(__func__); r != ncclSuccess) return r;
  Lock lock(nccl_world().mutex);
  if (!comm) return ncclSuccess;
  const SidePtr s = comm->side;
  wait(lock, [&] { return s->gone || s->done == s->launched; });
  end(comm, true);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (const ncclResult_t r = has_device(__func__); r != ncclSuccess) return r;
  Lock lock(nccl_world().mutex);
  if (!comm) return ncclSuccess;
  comm->side->gone = true;
  end(comm, false);
  // NCCL frees the handle here. The double keeps it, so that a later use is reported.
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  Lock lock(nccl_world().mutex);
  if (!comm) return refuse(ncclInvalidArgument, "the communicator is null");
  *state = comm->side->state;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->side->clique->ranks();
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->side->rank;
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** begin, size_t bytes) {
  if (const ncclResult_t r = has_device(__func__); r != ncclSuccess) return r;
  return cudaMalloc(begin, bytes) == cudaSuccess ? ncclSuccess
                                                 : refuse(ncclUnhandledCudaError, "Cuda failure 2 'out of memory'");
}

ncclResult_t ncclMemFree(void* begin) {
  if (const ncclResult_t r = has_device(__func__); r != ncclSuccess) return r;
  return cudaFree(begin) == cudaSuccess ? ncclSuccess : refuse(ncclInvalidArgument, "the memory was not allocated");
}

// Registers a window. Like NCCL, waits until all ranks have registered theirs.
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* begin, size_t bytes, ncclWindow_t* window, int) {
  if (const ncclResult_t r = has_device(__func__); r != ncclSuccess) return r;
  *window = nullptr;
  if (!reaches(begin, static_cast<int64_t>(bytes)))
    return refuse(ncclInvalidArgument, "the window is not memory of the device");
  Lock lock(nccl_world().mutex);
  if (const ncclResult_t r = ready(comm); r != ncclSuccess) return r;
  const SidePtr s = comm->side;
  if (device_at(begin) != s->device) return refuse(ncclInvalidArgument, "the window is of another device");
  auto& begins = s->clique->windows(s->windows++);
  begins[s->rank] = static_cast<const char*>(begin);
  changed();
  wait(lock, [&] { return s->gone || begins.size() == static_cast<size_t>(s->clique->ranks()); });
  if (s->gone) return refuse(ncclInternalError, "aborted while registering a window");
  *window = new ncclWindow_vidmem;
  if (registry().maps_windows)
    for (const auto& [rank, address] : begins) (*window)->begins.push_back(address);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t window) {
  delete window;
  return ncclSuccess;
}

// Registers a buffer. Unlike NCCL, the double rejects a buffer that is not one piece of mapped memory, and a second
// registration of the same address.
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* begin, size_t bytes, void** handle) {
  *handle = nullptr;
  const auto size = static_cast<int64_t>(bytes);
  if (!is_one_piece(begin, size)) return refuse(ncclInvalidArgument, "the buffer is not one piece of mapped memory");
  Lock lock(nccl_world().mutex);
  if (const ncclResult_t r = ready(comm); r != ncclSuccess) return r;
  if (!registry().registers) return refuse(ncclSystemError, "the buffer cannot be registered");
  if (device_at(begin) != comm->side->device) return refuse(ncclInvalidArgument, "the buffer is of another device");
  if (!comm->side->registered.emplace(reinterpret_cast<uintptr_t>(begin), size).second)
    return refuse(ncclInvalidUsage, "the buffer is registered already");
  *handle = begin;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  Lock lock(nccl_world().mutex);
  if (const ncclResult_t r = ready(comm); r != ncclSuccess) return r;
  if (comm->side->registered.erase(reinterpret_cast<uintptr_t>(handle)) == 0)
    return refuse(ncclInvalidUsage, "there is no such registration");
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
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

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

}  // extern "C"
