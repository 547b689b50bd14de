// NCCL's calls that make and end communicators, implemented by the double.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "tests/support/cuda_double/device.h"
#include "tests/support/cuda_double/nccl_side.h"

using namespace hexad::cuda_double;

namespace {

using Lock = Clique::Lock;

constexpr int finalizing = -1;

ncclResult_t take_config(NcclSide& side, const ncclConfig_t* config) {
  side.config = NCCL_CONFIG_INITIALIZER;
  if (!config) return ncclSuccess;
  if (config->magic != side.config.magic || config->size != sizeof(ncclConfig_t))
    return nccl_refusal(ncclInvalidArgument, "the configuration was not initialized");
  if (config->minCTAs != NCCL_CONFIG_UNDEF_INT && config->maxCTAs != NCCL_CONFIG_UNDEF_INT &&
      (config->minCTAs < 1 || config->minCTAs > config->maxCTAs))
    return nccl_refusal(ncclInvalidArgument, "minCTAs is not between 1 and maxCTAs");
  if (config->trafficClass != NCCL_CONFIG_UNDEF_INT && config->trafficClass < 0)
    return nccl_refusal(ncclInvalidArgument, "trafficClass is negative");
  side.config = *config;
  return ncclSuccess;
}

NcclSidePtr make_side(const std::shared_ptr<Clique>& clique, int rank, int device) {
  auto side = std::make_shared<NcclSide>();
  side->clique = clique, side->rank = rank, side->device = device;
  return side;
}

// Calls `finish`, which waits for the other ranks. If the communicator is blocking, calls `finish` on this thread.
// Otherwise calls `finish` on another thread, and the result becomes the state of the side.
template <class F>
ncclResult_t complete(Lock& lock, const NcclSidePtr& side, const F& finish) {
  if (side->is_blocking()) return finish(lock);
  side->state = ncclInProgress;
  std::thread([side, finish] {
    Lock own(nccl_world().mutex);
    side->state = finish(own);
    nccl_changed();
  }).detach();
  return ncclInProgress;
}

// Ends a communicator. Also counts a fault for each buffer that is still registered, if `faults` is true.
void end(ncclComm_t comm, bool faults) {
  if (faults) nccl_registry().registration_faults += static_cast<int64_t>(comm->side->registered.size());
  comm->side->registered.clear();
  comm->side->buffers.free(comm->side->device);
  std::erase(nccl_registry().sides, comm->side);
  nccl_changed();
}

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  Lock lock(nccl_world().mutex);
  const uint64_t number = ++nccl_registry().ids;
  const int64_t process = getpid();
  *id = {};
  std::memcpy(id->internal, &number, sizeof number);
  std::memcpy(id->internal + sizeof number, &process, sizeof process);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (const ncclResult_t r = nccl_has_device(__func__); r != ncclSuccess) return r;
  uint64_t number = 0;
  int64_t process = 0;
  std::memcpy(&number, id.internal, sizeof number);
  std::memcpy(&process, id.internal + sizeof number, sizeof process);
  if (process != getpid()) return nccl_refusal(ncclSystemError, "the double reaches ranks of its own process only");
  if (rank < 0 || rank >= ranks)
    return nccl_refusal(ncclInvalidArgument, "the rank is negative or at least the number of ranks");
  Lock lock(nccl_world().mutex);
  NcclBirth& birth = nccl_registry().births[number];
  if (!birth.clique) birth.clique = std::make_shared<Clique>(ranks);
  birth.clique->set_node(rank, nccl_registry().node_of(current_device()));
  const NcclSidePtr side = make_side(birth.clique, rank, current_device());
  if (const ncclResult_t r = take_config(*side, config); r != ncclSuccess) return r;
  side->state = ncclInProgress;
  *comm = new ncclComm{side};
  nccl_registry().sides.push_back(side);
  birth.sides[rank] = side.get();
  if (birth.sides.size() == static_cast<size_t>(ranks)) {
    std::set<int> devices;
    for (const auto& [r, s] : birth.sides) devices.insert(s->device);
    const bool shared = devices.size() < birth.sides.size();
    for (const auto& [r, s] : birth.sides) s->state = shared ? ncclInvalidUsage : ncclSuccess;
    nccl_registry().births.erase(number);
    nccl_changed();
  }
  if (!side->is_blocking()) return ncclInProgress;
  nccl_wait(lock, [&] { return side->gone || side->state != ncclInProgress; });
  if (side->state == ncclInvalidUsage) return nccl_refusal(ncclInvalidUsage, "two ranks are on one device");
  return side->gone ? ncclInternalError : side->state;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  if (const ncclResult_t r = nccl_has_device(__func__); r != ncclSuccess) return r;
  Lock lock(nccl_world().mutex);
  *made = nullptr;
  if (const ncclResult_t r = nccl_ready(comm); r != ncclSuccess) return r;
  const NcclSidePtr parent = comm->side;
  const bool takes_part = color != NCCL_SPLIT_NOCOLOR;
  const NcclSidePtr side = make_side(nullptr, 0, parent->device);
  if (const ncclResult_t r = take_config(*side, config); r != ncclSuccess) return r;
  if (!config) side->config = parent->config;
  Clique::Gathering& here = parent->clique->gathering(parent->splits++);
  here.colors[parent->rank] = {color, key};
  const bool last = here.colors.size() == static_cast<size_t>(parent->clique->ranks());
  if (last) nccl_changed();
  const auto finish = [parent, side, color, takes_part, made, &here](Lock& locked) {
    nccl_wait(locked,
              [&] { return parent->gone || here.colors.size() == static_cast<size_t>(parent->clique->ranks()); });
    if (parent->gone) return nccl_refusal(ncclInternalError, "aborted while splitting");
    if (!takes_part) return ncclSuccess;
    std::vector<std::pair<int, int>> members;  // key, rank
    for (const auto& [rank, its] : here.colors)
      if (its.first == color) members.emplace_back(its.second, rank);
    std::sort(members.begin(), members.end());
    auto& clique = here.made[color];
    if (!clique) {
      clique = std::make_shared<Clique>(static_cast<int>(members.size()));
      for (size_t i = 0; i < members.size(); ++i)
        clique->set_node(static_cast<int>(i), parent->clique->nodes()[members[i].second]);
    }
    side->clique = clique;
    while (members[side->rank].second != parent->rank) ++side->rank;
    nccl_registry().sides.push_back(side);
    *made = new ncclComm{side};
    return ncclSuccess;
  };
  return complete(lock, parent, finish);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (const ncclResult_t r = nccl_has_device(__func__); r != ncclSuccess) return r;
  Lock lock(nccl_world().mutex);
  if (const ncclResult_t r = nccl_ready(comm); r != ncclSuccess) return r;
  const NcclSidePtr s = comm->side;
  Clique::Gathering& here = s->clique->gathering(finalizing);
  here.colors[s->rank] = {};
  nccl_changed();
  const auto finish = [s, &here](Lock& locked) {
    nccl_wait(locked, [&] {
      return s->gone || (s->done == s->launched && here.colors.size() == static_cast<size_t>(s->clique->ranks()));
    });
    return s->gone ? nccl_refusal(ncclInternalError, "aborted while finalizing") : ncclSuccess;
  };
  return complete(lock, s, finish);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (const ncclResult_t r = nccl_has_device(__func__); r != ncclSuccess) return r;
  Lock lock(nccl_world().mutex);
  if (!comm) return ncclSuccess;
  const NcclSidePtr s = comm->side;
  nccl_wait(lock, [&] { return s->gone || s->done == s->launched; });
  end(comm, true);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (const ncclResult_t r = nccl_has_device(__func__); r != ncclSuccess) return r;
  Lock lock(nccl_world().mutex);
  if (!comm) return ncclSuccess;
  comm->side->gone = true;
  end(comm, false);
  // NCCL frees the handle here. The double keeps the handle, so that a later use is reported.
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  Lock lock(nccl_world().mutex);
  if (!comm) return nccl_refusal(ncclInvalidArgument, "the communicator is null");
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

}  // extern "C"
