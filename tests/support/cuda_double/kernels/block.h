// The threads of a launch's blocks as fibers of one thread of the host, which meet where kernels synchronise.
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
  std::string kernel;  // in errors
  dim3 blocks{}, threads{};
  size_t shared = 0;                // bytes of dynamic shared memory
  std::optional<uint64_t> order{};  // a seed: blocks, and the threads of a block, run in any order
};

/// Runs `thread` once for each thread of each block, blocks one after another. Throws std::runtime_error naming kernel,
/// block and thread if threads wait for others that never arrive.
void run_grid(const Grid& grid, const std::function<void()>& thread);

/// Value that a lane gives to the others of its warp.
struct LaneValue {
  alignas(16) std::byte bytes[32];
};

/// A call by which threads meet.
struct Call {
  const char* name;
  std::source_location from;
};

// For the threads of a kernel.

/// Waits for all threads of the block. Returns whether any of them gave true.
bool meet_block(const Call& call, bool predicate);
/// Waits for the lanes of `mask`, of which this is one, each of which makes the same call. Returns what each gave: 32
/// values, of which those of the mask are set, valid until the lane's next rendezvous.
const LaneValue* meet_warp(const Call& call, unsigned mask, const void* mine, size_t bytes);
/// The block's dynamic shared memory.
void* dynamic_shared_memory();
/// A copy that is done at some time before this thread's next finish_copies(): then. Zeros where not `wanted`.
void copy_later(void* to, const void* from, size_t bytes, bool wanted);
void finish_copies();
/// Ends the kernel with an error that names it, its block and this thread.
[[noreturn]] void fail_thread(const std::string& why);

}  // namespace hexad::cuda_double
