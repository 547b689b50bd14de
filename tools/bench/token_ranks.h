// Numbers of expert-parallel ranks that tokens visit (g in EPS-MoE, section 4.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>

namespace hexad::bench {

/// Returns the mean number of ranks that have at least one of a token's experts. `ids` has `top_k` experts for each
/// token; each rank has `experts_per_rank` consecutive experts.
inline double mean_token_ranks(std::span<const int32_t> ids, int64_t top_k, int64_t experts_per_rank) {
  double sum = 0;
  for (size_t begin = 0; begin < ids.size(); begin += static_cast<size_t>(top_k)) {
    std::set<int64_t> ranks;
    for (const int32_t id : ids.subspan(begin, static_cast<size_t>(top_k))) ranks.insert(id / experts_per_rank);
    sum += static_cast<double>(ranks.size());
  }
  return sum * static_cast<double>(top_k) / static_cast<double>(ids.size());
}

/// Returns the expectation of mean_token_ranks() if all sets of `top_k` different experts are equally probable. A rank
/// has none of a token's experts with probability C(experts - n, top_k) / C(experts, top_k), where n is the number of
/// experts on a rank.
inline double expected_token_ranks(int64_t experts, int64_t top_k, int64_t ranks) {
  double none = 1;
  for (int64_t k = 0; k < top_k; ++k)
    none *= static_cast<double>(experts - experts / ranks - k) / static_cast<double>(experts - k);
  return static_cast<double>(ranks) * (1 - none);
}

}  // namespace hexad::bench
