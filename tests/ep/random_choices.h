// Random choices of experts for the tokens of a rank, the same in every run.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/philox.h"
#include "framework/tensor/tensor.h"

namespace hexad::tests {

/// Distribution of the tokens' choices among the experts.
enum class Load : uint8_t { random, one_expert, some_ranks_empty };

/// Returns ids [5 + rank, 2] i32 of distinct experts, or -1 for a dropped slot. All tokens choose only the last expert
/// if `load` is Load::one_expert. There are no tokens if `load` is Load::some_ranks_empty and `empty` is true.
inline tensor::Tensor random_choices(int rank, Load load, bool empty, int64_t experts, device::DeviceContext& context) {
  constexpr int64_t top_k = 2;
  const int64_t tokens = load == Load::some_ranks_empty && empty ? 0 : 5 + rank;
  const base::Philox random(3, base::Purpose::route, base::cat("rank ", rank));
  std::vector<int32_t> ids;
  uint64_t n = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    const auto first = static_cast<int32_t>(random.below(n++, static_cast<uint64_t>(experts)));
    const auto step = static_cast<int32_t>(1 + random.below(n++, static_cast<uint64_t>(experts - 1)));
    ids.push_back(load == Load::one_expert ? static_cast<int32_t>(experts - 1) : first);
    ids.push_back(load == Load::one_expert || random.below(n++, 5) == 0 ? -1 : (first + step) % int32_t(experts));
  }
  return tensor::Tensor::from<int32_t>(ids, {tokens, top_k}, context);
}

}  // namespace hexad::tests
