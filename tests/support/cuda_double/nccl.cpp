#include "tests/support/cuda_double/nccl.h"

#include "tests/support/cuda_double/nccl_side.h"

namespace hexad::cuda_double {

using Lock = Clique::Lock;

std::vector<NcclCommunicator> nccl_communicators() {
  Lock lock(nccl_world().mutex);
  std::vector<NcclCommunicator> all;
  for (const NcclSidePtr& s : nccl_registry().sides) {
    const char* name = s->config.commName;  // the caller keeps the name alive, as NCCL requires
    all.push_back({name ? name : "", s->rank, s->clique->ranks(), s->device, s->config});
  }
  return all;
}

int64_t nccl_launches() {
  Lock lock(nccl_world().mutex);
  return nccl_registry().launches;
}

int64_t nccl_bytes(int device) {
  Lock lock(nccl_world().mutex);
  int64_t all = 0;
  for (const NcclSidePtr& s : nccl_registry().sides)
    if (s->device == device) all += s->buffers.bytes();
  return all;
}

int64_t nccl_registrations() {
  Lock lock(nccl_world().mutex);
  int64_t all = 0;
  for (const NcclSidePtr& s : nccl_registry().sides) all += static_cast<int64_t>(s->registered.size());
  return all;
}

int64_t nccl_registration_faults() {
  Lock lock(nccl_world().mutex);
  return nccl_registry().registration_faults;
}

namespace {

// Sets a member of the registry. Returns a function that restores its previous value.
template <class T>
std::function<void()> changed(T NcclRegistry::*member, T value) {
  const auto set = [member](T to) {
    Lock lock(nccl_world().mutex);
    return std::exchange(nccl_registry().*member, to);
  };
  return [set, before = set(value)] { set(before); };
}

}  // namespace

NcclChange NcclChange::cards_per_node(int cards) { return NcclChange(changed(&NcclRegistry::cards_per_node, cards)); }

NcclChange NcclChange::no_registrations() { return NcclChange(changed(&NcclRegistry::registers, false)); }

NcclChange NcclChange::no_mapped_windows() { return NcclChange(changed(&NcclRegistry::maps_windows, false)); }

void nccl_pages_go(const void* begin, int64_t bytes) {
  const auto from = reinterpret_cast<uintptr_t>(begin), to = from + static_cast<uintptr_t>(bytes);
  Lock lock(nccl_world().mutex);
  for (const NcclSidePtr& s : nccl_registry().sides)
    for (const auto& [first, size] : s->registered)
      if (first < to && from < first + static_cast<uintptr_t>(size)) ++nccl_registry().registration_faults;
}

void lose_nccl_ranks(int device) {
  Lock lock(nccl_world().mutex);
  for (const NcclSidePtr& lost : nccl_registry().sides)
    for (const NcclSidePtr& s : nccl_registry().sides)
      if (lost->device == device && s->device != device && s->clique == lost->clique) s->state = ncclRemoteError;
}

}  // namespace hexad::cuda_double

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

}  // extern "C"
