// Memory of the CUDA double: the process's own, with an account of what is a device's and what is pinned.
#pragma once

#include <cstdint>

namespace hexad::cuda_double {

enum class Memory : uint8_t { pageable, pinned, device };

/// Returns the kind of memory that `p` points to.
Memory kind_of(const void* p);
/// The device that the memory at `p` belongs to; -1 where it is the host's.
int device_at(const void* p);
/// True if all `bytes` bytes from `p` on are the device's, or pinned: a copy or a kernel may go there.
bool reaches(const void* p, int64_t bytes);
/// True if `bytes` bytes from `begin` on are exactly what one cuMemMap() mapped.
bool is_one_piece(const void* begin, int64_t bytes);

/// Sets the capacity of each device, 80 GiB by default: beyond it there is no memory.
void set_capacity(int64_t bytes);
int64_t capacity();
int64_t in_use(int device);

// Functions for other allocators (virtual memory).

/// False: the device has no room for so much. Negative: given back.
bool charge(int device, int64_t bytes);
void add_range(void* begin, int64_t bytes, Memory kind, int device);
/// Its bytes.
int64_t remove_range(void* begin);

}  // namespace hexad::cuda_double
