// Limits of launches on a card, and functions that compute the sizes of launches. All functions are pure and accept any
// number of elements.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace hexad::kernels::cuda {

inline constexpr int warp_size = 32;

/// Limits of a launch: blocks in x, blocks in y, and threads of a block (CUDA programming guide, "Compute
/// capabilities").
inline constexpr int64_t max_blocks_x = INT32_MAX, max_blocks_y = 65535;
inline constexpr int max_threads_of_block = 1024;

/// Bytes of shared memory per block. Every kernel may use `usual_shared_memory`. A kernel may request up to
/// `common_shared_memory` on every card from compute capability 8.0 on. Cards of 8.6, 8.9 and 12.0 have this limit, the
/// smallest of all. On 8.0, a kernel may request up to `max_shared_memory`.
inline constexpr size_t usual_shared_memory = size_t{48} << 10, common_shared_memory = size_t{99} << 10,
                        max_shared_memory = size_t{163} << 10;

/// Numbers of blocks of a launch, in two dimensions.
struct Blocks {
  int64_t x, y;
  constexpr Blocks(int64_t x_, int64_t y_ = 1) : x(x_), y(y_) {}
  constexpr bool none() const { return x == 0 || y == 0; }
  constexpr bool possible() const { return x >= 0 && x <= max_blocks_x && y >= 0 && y <= max_blocks_y; }
};

/// Returns the number of blocks for n items if each block processes `per_block` items.
constexpr int64_t blocks_of(int64_t n, int64_t per_block) { return (n + per_block - 1) / per_block; }

/// Returns blocks_of(n, per_block), but at most `most`, for kernels with a grid-stride loop.
constexpr int64_t blocks_of_loop(int64_t n, int64_t per_block, int64_t most) {
  return std::clamp<int64_t>(blocks_of(n, per_block), 0, most);
}

/// True if `address` and `distances` (in elements of `size` bytes) are multiples of `elements` elements.
inline bool multiples_of(int elements, size_t size, const void* address, std::initializer_list<int64_t> distances) {
  return reinterpret_cast<uintptr_t>(address) % (size * static_cast<size_t>(elements)) == 0 &&
         std::ranges::all_of(distances, [elements](int64_t d) { return d % elements == 0; });
}

/// Groups of threads that process one row each. Vector v of the row belongs to thread v % lanes of the group. A group
/// is a part of a warp, one warp, or the whole block.
struct ThreadGroups {
  int lanes;
  int threads;  // threads of a block
  int rows;     // rows of a block, one per group

  /// Returns the groups for rows of `vectors` vectors if each thread holds at most `held` vectors. A block has
  /// `threads` threads, or consists of a single group if a group is wider than a warp.
  static ThreadGroups of(int64_t vectors, int held, int threads) {
    const auto wanted = static_cast<unsigned>(std::max<int64_t>(1, (vectors + held - 1) / held));
    if (wanted <= warp_size) {
      const int lanes = static_cast<int>(std::bit_ceil(wanted));
      return {lanes, threads, threads / lanes};
    }
    const int lanes = static_cast<int>((wanted + warp_size - 1) / warp_size * warp_size);
    return {lanes, lanes, 1};
  }
};

}  // namespace hexad::kernels::cuda
