#include "tools/plan/profile/operand_memory.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "framework/base/error.h"

namespace hexad::plan {
namespace {

// Returns the total size of the node's outer caches, in bytes; 0 if the size is unknown. The system lists a cache once
// for each processor, with the processors that share the cache.
int64_t outer_caches() {
  std::map<std::string, int64_t> caches;
  for (int cpu = 0;; ++cpu) {
    const std::filesystem::path folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index3";
    std::ifstream processors(folder / "shared_cpu_list"), size(folder / "size");
    std::string list;
    int64_t kibibytes = 0;
    if (!(processors >> list) || !(size >> kibibytes)) break;
    caches[list] = kibibytes << 10;
  }
  int64_t total = 0;
  for (const auto& [processors, bytes] : caches) total += bytes;
  return total > 0 ? total : std::max(0l, sysconf(_SC_LEVEL3_CACHE_SIZE));
}

}  // namespace

int64_t bytes_beyond_caches(int64_t ranks_of_node, int64_t most) {
  constexpr int64_t least = 64 << 20;
  return std::clamp(2 * outer_caches() / ranks_of_node, std::min(most, least), most);
}

int64_t bytes_of_outer_cache(int64_t most) { return std::min<int64_t>(most, 32 << 20); }

int64_t operands_in_turn(int64_t bytes, int64_t in_use, int64_t most) {
  return std::clamp<int64_t>((in_use + bytes - 1) / bytes, 1, most);
}

Operands::Operands(int64_t bytes, device::Device device)
    : memory_(tensor::Tensor::zeros({bytes / 4}, base::Dtype::f32, device, device::Category::communication)) {}

tensor::Tensor Operands::next(int64_t numel) {
  constexpr int64_t blocks = 64;
  numel = (numel + alignment - 1) / alignment * alignment;
  base::require(numel <= memory_.numel(), "[profile] a block has ", numel, " elements, expected at most ",
                memory_.numel());
  if (used_ + numel > std::min(blocks * numel, memory_.numel())) used_ = 0;
  used_ += numel;
  return memory_.slice(0, used_ - numel, used_);
}

}  // namespace hexad::plan
