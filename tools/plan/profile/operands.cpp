#include "tools/plan/profile/operands.h"

#include <unistd.h>

#include <algorithm>

namespace hexad::plan {

int64_t bytes_beyond_caches(int64_t ranks_of_node, int64_t most) {
  constexpr int64_t mebibyte = 1 << 20;
  const int64_t outer_cache = std::max(0l, sysconf(_SC_LEVEL3_CACHE_SIZE));  // 0: unknown
  return std::clamp(2 * outer_cache / ranks_of_node, std::min(most, 64 * mebibyte), most);
}

Operands::Operands(int64_t bytes, device::Device device)
    : memory_(tensor::Tensor::zeros({bytes / 4}, base::Dtype::f32, device, device::Category::communication)) {}

tensor::Tensor Operands::next(int64_t numel) {
  constexpr int64_t pieces = 64;
  if (used_ + numel > std::min(pieces * numel, memory_.numel())) used_ = 0;
  used_ += numel;
  return memory_.slice(0, used_ - numel, used_);
}

}  // namespace hexad::plan
