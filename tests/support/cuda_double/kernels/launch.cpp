#include "tests/support/cuda_double/kernels/launch.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/support/cuda_double/device.h"
#include "tests/support/cuda_double/kernels/block.h"
#include "tests/support/cuda_double/launches.h"
#include "tests/support/cuda_double/memory.h"
#include "tests/support/cuda_double/stream.h"

namespace hexad::cuda_double {
namespace {

// Limits of compute capability 9.0: the shared memory of a block if no more is requested, the threads of a block, and
// the blocks of a grid.
constexpr size_t usual_shared = size_t{48} << 10;
constexpr unsigned max_threads = 1024, max_threads_z = 64, max_blocks_x = 0x7fffffff, max_blocks_yz = 65535;

std::mutex allowed_mutex;
std::map<const void*, size_t>& allowed() {
  static std::map<const void*, size_t> of_kernels;
  return of_kernels;
}

bool possible(const dim3& blocks, const dim3& threads) {
  return blocks.x >= 1 && blocks.y >= 1 && blocks.z >= 1 && blocks.x <= max_blocks_x && blocks.y <= max_blocks_yz &&
         blocks.z <= max_blocks_yz && threads.x >= 1 && threads.y >= 1 && threads.z >= 1 && threads.x <= max_threads &&
         threads.y <= max_threads && threads.z <= max_threads_z &&
         uint64_t{threads.x} * threads.y * threads.z <= max_threads;
}

size_t allowed_shared(const void* kernel) {
  const std::lock_guard lock(allowed_mutex);
  const auto it = allowed().find(kernel);
  return std::min(shared_memory_limit(), std::max(usual_shared, it == allowed().end() ? 0 : it->second));
}

// Kernels that launch() has loaded, by address.
LoadedKernels loaded;

/// Returns a new seed for every launch, or nothing if HEXAD_CUDA_DOUBLE_JITTER is not set.
std::optional<uint64_t> order_seed() {
  const char* text = std::getenv("HEXAD_CUDA_DOUBLE_JITTER");
  if (!text) return {};
  static std::atomic<uint64_t> launches{0};
  return std::strtoull(text, nullptr, 10) * 1000003 + launches++;
}

}  // namespace

void LoadedKernels::load(uint64_t kernel, int device) {
  if (settings().loads_early) return;
  {
    const std::lock_guard lock(mutex_);
    if (!loaded_.emplace(device, kernel).second) return;
  }
  static_cast<void>(synchronize_device(device));  // the launch or a later call reports a broken device
}

void launch(std::string_view kernel, const LaunchShape& shape, cudaStream_t stream, std::function<void()> thread) {
  if (require_device("a kernel's launch") != cudaSuccess) return;
  const auto refuse = [](cudaError_t error) { static_cast<void>(set_last_error(error)); };
  if (device_of(stream) != current_device()) return refuse(cudaErrorInvalidResourceHandle);
  if (!possible(shape.blocks, shape.threads)) return refuse(cudaErrorInvalidConfiguration);
  if (shape.shared > allowed_shared(shape.kernel)) return refuse(cudaErrorInvalidValue);
  loaded.load(reinterpret_cast<uintptr_t>(shape.kernel), current_device());
  count_launch(kernel);
  note_blocks(kernel, int64_t{shape.blocks.x} * shape.blocks.y * shape.blocks.z);
  enqueue(stream, [grid = Grid{.kernel = std::string(kernel),
                               .blocks = shape.blocks,
                               .threads = shape.threads,
                               .shared = shape.shared,
                               .order = order_seed()},
                   thread = std::move(thread)] { run_grid(grid, thread); });
}

cudaError_t allow_shared(const void* kernel, size_t bytes) {
  if (bytes > shared_memory_limit()) return set_last_error(cudaErrorInvalidValue);
  const std::lock_guard lock(allowed_mutex);
  allowed()[kernel] = bytes;
  return cudaSuccess;
}

void check_pointer(std::string_view kernel, const void* p) {
  if (!p || kind_of(p) != Memory::pageable) return;
  std::ostringstream out;
  out << '[' << kernel << "] the kernel's argument " << p << " is host memory; expected device memory or pinned memory";
  throw std::logic_error(out.str());
}

}  // namespace hexad::cuda_double
