// Threads of a launch's blocks. They are fibers of one host thread, and wait for each other where kernels synchronise.
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

namespace hexad::cuda_double {

inline constexpr int lanes_of_warp = 32;

struct Grid {
  std::string kernel;  // named in errors
  dim3 blocks{}, threads{};
  size_t shared = 0;                // bytes of dynamic shared memory
  std::optional<uint64_t> order{};  // seed of a random order of the blocks, and of the threads in a block
};

/// Runs `thread` once for each thread of each block. Blocks run one after another. Rethrows the first exception of a
/// thread. Throws std::runtime_error with kernel, block and thread if threads wait for other threads that never arrive.
void run_grid(const Grid& grid, const std::function<void()>& thread);

/// Value that a lane passes to the other lanes of its warp.
struct LaneValue {
  alignas(16) std::byte bytes[32];
};

/// Call at which the threads of a block or of a warp wait for each other.
struct Call {
  const char* name;
  std::source_location from;
};

// The threads of a kernel call these functions.

/// Waits for all threads of the block. Returns true if at least one of these threads passes a true `predicate`.
bool meet_block(const Call& call, bool predicate);
/// Waits for the lanes of `mask`, which must include this lane. All of these lanes must make the same call. This lane's
/// value is the `bytes` bytes at `mine`, at most 32. Returns 32 values, one for each lane. Only the values of the
/// mask's lanes are set. The values are valid until this lane's next rendezvous.
const LaneValue* meet_warp(const Call& call, unsigned mask, const void* mine, size_t bytes);
/// Returns the block's dynamic shared memory.
void* dynamic_shared_memory();
/// Copies `bytes` bytes at some time before the end of this thread's next finish_copies(). Writes zeros instead if
/// `wanted` is false.
void copy_later(void* to, const void* from, size_t bytes, bool wanted);
/// Performs this thread's copies that are not done yet.
void finish_copies();
/// Ends the kernel with an error that names the kernel, its block and this thread.
[[noreturn]] void fail_thread(const std::string& why);

}  // namespace hexad::cuda_double
