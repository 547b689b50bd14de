// Memory of the CUDA double. It is the process's own memory, with a record of device memory and pinned memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace hexad::cuda_double {

enum class Memory : uint8_t { pageable, pinned, device };

/// Returns the kind of memory that `p` points to.
Memory kind_of(const void* p);
/// Returns the device that owns the memory at `p`; -1 for host memory.
int device_at(const void* p);
/// True if all `bytes` bytes from `p` on are device memory or pinned memory. A copy or a kernel may then access them.
bool reaches(const void* p, int64_t bytes);
/// True if `bytes` bytes from `begin` on are exactly the range of one cuMemMap().
bool is_one_piece(const void* begin, int64_t bytes);

/// Sets the capacity of each device, 80 GiB by default. Allocations beyond this capacity fail.
void set_capacity(int64_t bytes);
int64_t capacity();
int64_t in_use(int device);
/// Returns the number of successful calls of cudaMalloc and cudaHostAlloc since the last call of this function. The
/// keys have the function and the bytes ("cudaHostAlloc 4096"). On hardware, each of these calls may wait for the
/// device. Therefore, a step of training must not make such calls while messages are in flight.
std::map<std::string, int64_t> take_allocations();
/// Limits further pinned memory to `bytes` during the lifetime of this object. cudaHostAlloc fails beyond this limit.
class PinnedCapacity {
 public:
  explicit PinnedCapacity(int64_t bytes);
  ~PinnedCapacity();
  PinnedCapacity(const PinnedCapacity&) = delete;
  PinnedCapacity& operator=(const PinnedCapacity&) = delete;
};

// Functions for the double's other allocators (virtual memory, NCCL's buffers):

/// Adds `bytes` to the used bytes of a device. A negative number returns memory. Adds nothing and returns false if the
/// device has too little memory.
bool charge(int device, int64_t bytes);
void add_range(void* begin, int64_t bytes, Memory kind, int device);
/// Removes the range that begins at `begin`. Returns its size in bytes; 0 if there is none.
int64_t remove_range(void* begin);

}  // namespace hexad::cuda_double
