#include "tests/support/cuda_double/memory.h"

#include <cuda_runtime_api.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "tests/support/cuda_double/device.h"
#include "tests/support/cuda_double/host_waits.h"
#include "tests/support/cuda_double/launches.h"
#include "tests/support/cuda_double/stream.h"

namespace hexad::cuda_double {
namespace {

struct Range {
  int64_t bytes;
  Memory kind;
  int device;
};

struct Ranges {
  std::mutex mutex;
  std::map<uintptr_t, Range> by_begin;
  std::map<int, int64_t> in_use;  // bytes of each device
  int64_t capacity = int64_t{80} << 30;
  int64_t pinned = 0, pinned_capacity = std::numeric_limits<int64_t>::max();
  std::map<std::string, int64_t> allocations;  // see take_allocations()
};

Ranges& ranges() {
  static Ranges all;
  return all;
}

// Returns the range that contains `p`, or null. The mutex must be held.
const std::pair<const uintptr_t, Range>* range_at(const void* p) {
  const auto place = reinterpret_cast<uintptr_t>(p);
  auto it = ranges().by_begin.upper_bound(place);
  if (it == ranges().by_begin.begin()) return nullptr;
  --it;
  return place < it->first + static_cast<uintptr_t>(it->second.bytes) ? &*it : nullptr;
}

constexpr size_t alignment = 512;  // same alignment as on a card

void* take(size_t bytes) { return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment); }

}  // namespace

Memory kind_of(const void* p) {
  std::lock_guard lock(ranges().mutex);
  const auto* range = range_at(p);
  return range ? range->second.kind : Memory::pageable;
}

int device_at(const void* p) {
  std::lock_guard lock(ranges().mutex);
  const auto* range = range_at(p);
  return range && range->second.kind == Memory::device ? range->second.device : -1;
}

bool reaches(const void* p, int64_t bytes) {
  std::lock_guard lock(ranges().mutex);
  auto place = reinterpret_cast<uintptr_t>(p);
  const uintptr_t end = place + static_cast<uintptr_t>(bytes);
  do {
    const auto* range = range_at(reinterpret_cast<const void*>(place));
    if (!range) return false;
    place = range->first + static_cast<uintptr_t>(range->second.bytes);
  } while (place < end);
  return true;
}

void set_capacity(int64_t bytes) {
  std::lock_guard lock(ranges().mutex);
  ranges().capacity = bytes;
}

int64_t capacity() {
  std::lock_guard lock(ranges().mutex);
  return ranges().capacity;
}

int64_t in_use(int device) {
  std::lock_guard lock(ranges().mutex);
  return ranges().in_use[device];
}

std::map<std::string, int64_t> take_allocations() {
  std::lock_guard lock(ranges().mutex);
  return std::exchange(ranges().allocations, {});
}

PinnedCapacity::PinnedCapacity(int64_t bytes) {
  std::lock_guard lock(ranges().mutex);
  ranges().pinned_capacity = ranges().pinned + bytes;
}

PinnedCapacity::~PinnedCapacity() {
  std::lock_guard lock(ranges().mutex);
  ranges().pinned_capacity = std::numeric_limits<int64_t>::max();
}

bool charge(int device, int64_t bytes) {
  std::lock_guard lock(ranges().mutex);
  if (bytes > 0 && ranges().in_use[device] + bytes > ranges().capacity) return false;
  ranges().in_use[device] += bytes;
  return true;
}

void add_range(void* begin, int64_t bytes, Memory kind, int device) {
  std::lock_guard lock(ranges().mutex);
  ranges().by_begin[reinterpret_cast<uintptr_t>(begin)] = {bytes, kind, device};
}

int64_t remove_range(void* begin) {
  std::lock_guard lock(ranges().mutex);
  const auto it = ranges().by_begin.find(reinterpret_cast<uintptr_t>(begin));
  if (it == ranges().by_begin.end()) return 0;
  const int64_t bytes = it->second.bytes;
  ranges().by_begin.erase(it);
  return bytes;
}

namespace {

bool begins_a_range(void* p, Memory kind) {
  std::lock_guard lock(ranges().mutex);
  const auto it = ranges().by_begin.find(reinterpret_cast<uintptr_t>(p));
  return it != ranges().by_begin.end() && it->second.kind == kind;
}

void count_allocation(const char* function, size_t bytes) {
  std::lock_guard lock(ranges().mutex);
  ++ranges().allocations[std::string(function) + " " + std::to_string(bytes)];
}

// Adds `bytes` to the pinned memory. A negative number returns memory. Adds nothing and returns false if the capacity
// does not suffice.
bool charge_pinned(int64_t bytes) {
  std::lock_guard lock(ranges().mutex);
  if (bytes > 0 && bytes > ranges().pinned_capacity - ranges().pinned) return false;
  ranges().pinned += bytes;
  return true;
}

// Copies on the stream. When the call returns, a copy from pageable memory has read all bytes, and a copy to pageable
// memory has written them.
cudaError_t copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const auto size = static_cast<int64_t>(bytes);
  const Memory source = kind_of(from), target = kind_of(to);
  if ((source != Memory::pageable && !reaches(from, size)) || (target != Memory::pageable && !reaches(to, size)))
    return set_last_error(cudaErrorInvalidValue);
  std::shared_ptr<char[]> staged;
  if (source == Memory::pageable) {
    staged.reset(new char[bytes]);
    std::memcpy(staged.get(), from, bytes);
    from = staged.get();
  }
  enqueue(stream, [to, from, bytes, staged] { std::memcpy(to, from, bytes); });
  return target == Memory::pageable ? cudaStreamSynchronize(stream) : state_of(device_of(stream));
}

}  // namespace
}  // namespace hexad::cuda_double

using namespace hexad::cuda_double;

extern "C" {

// Waits for the device, as CUDA may.
cudaError_t cudaMalloc(void** p, size_t bytes) {
  *p = nullptr;
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  if (bytes == 0) return cudaSuccess;
  if (const cudaError_t e = synchronize_device(current_device()); e != cudaSuccess) return e;
  const auto size = static_cast<int64_t>(bytes);
  void* block = charge(current_device(), size) ? take(bytes) : nullptr;
  if (!block) return set_last_error(cudaErrorMemoryAllocation);
  add_range(block, size, Memory::device, current_device());
  count_allocation(__func__, bytes);
  return *p = block, cudaSuccess;
}

// Waits for the device, like CUDA's cudaFree.
cudaError_t cudaFree(void* p) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  if (!p) return cudaSuccess;
  if (!begins_a_range(p, Memory::device)) return set_last_error(cudaErrorInvalidValue);
  const int device = device_at(p);
  count_host_wait(__func__);
  const cudaError_t state = synchronize_device(device);
  charge(device, -remove_range(p));
  std::free(p);
  return state;
}

// Waits for the device, as CUDA may.
cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned) {
  *p = nullptr;
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  if (const cudaError_t e = synchronize_device(current_device()); e != cudaSuccess) return e;
  if (!charge_pinned(static_cast<int64_t>(bytes))) return set_last_error(cudaErrorMemoryAllocation);
  *p = take(bytes);
  if (!*p) {
    charge_pinned(-static_cast<int64_t>(bytes));
    return set_last_error(cudaErrorMemoryAllocation);
  }
  add_range(*p, static_cast<int64_t>(bytes), Memory::pinned, -1);
  count_allocation(__func__, bytes);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* p) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  if (!p) return cudaSuccess;
  if (!begins_a_range(p, Memory::pinned)) return set_last_error(cudaErrorInvalidValue);
  count_host_wait(__func__);
  const cudaError_t state = synchronize_device(current_device());
  charge_pinned(-remove_range(p));
  std::free(p);
  return state;
}

cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  *total = static_cast<size_t>(capacity());
  *available = *total - static_cast<size_t>(in_use(current_device()));
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  count_launch(__func__);
  return copy(to, from, bytes, stream);
}

cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  if (bytes == 0) return cudaSuccess;
  if (!reaches(p, static_cast<int64_t>(bytes))) return set_last_error(cudaErrorInvalidValue);
  count_launch(__func__);
  enqueue(stream, [=] { std::memset(p, value, bytes); });
  return state_of(device_of(stream));
}

cudaError_t cudaMemset2DAsync(void* p, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  if (width == 0 || height == 0) return cudaSuccess;
  if (width > pitch || !reaches(p, static_cast<int64_t>(pitch * (height - 1) + width)))
    return set_last_error(cudaErrorInvalidValue);
  count_launch(__func__);
  enqueue(stream, [=] {
    for (size_t row = 0; row < height; ++row) std::memset(static_cast<std::byte*>(p) + row * pitch, value, width);
  });
  return state_of(device_of(stream));
}

// Waits for the device, and fills the memory on the host, because the double has no default stream.
cudaError_t cudaMemset(void* p, int value, size_t bytes) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  if (bytes && !reaches(p, static_cast<int64_t>(bytes))) return set_last_error(cudaErrorInvalidValue);
  count_host_wait(__func__);
  const cudaError_t state = synchronize_device(current_device());
  std::memset(p, value, bytes);
  return state;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  const Memory kind = kind_of(p);
  *a = {};
  a->type = kind == Memory::device   ? cudaMemoryTypeDevice
            : kind == Memory::pinned ? cudaMemoryTypeHost
                                     : cudaMemoryTypeUnregistered;
  a->device = kind == Memory::device ? device_at(p) : -1;
  a->devicePointer = kind == Memory::pageable ? nullptr : const_cast<void*>(p);
  a->hostPointer = kind == Memory::device ? nullptr : const_cast<void*>(p);
  return cudaSuccess;
}

}  // extern "C"
