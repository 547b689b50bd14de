// Sizes from the recipe bench-gpu, for benchmarks: its micro-batch, one layer, and its vocabulary.
#pragma once

#include <cstdint>

namespace hexad::bench {

inline constexpr int64_t sequences = 4, positions = 4096, tokens = sequences * positions;
inline constexpr int64_t hidden = 2048, experts = 32, top_k = 4, expert_hidden = 1024, rows = tokens * top_k;
inline constexpr int64_t words = 32768, heads = 16, key_heads = 4, head_size = 128,
                         qkv = (heads + 2 * key_heads) * head_size;

}  // namespace hexad::bench
