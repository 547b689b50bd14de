// How much of a card a launch takes, and how wide its threads read: pure functions, for any number of elements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace hexad::kernels::cuda {

/// The most blocks and threads of a launch (CUDA programming guide, "Compute capabilities").
inline constexpr int64_t most_blocks_x = INT32_MAX, most_blocks_y = 65535;
inline constexpr int most_threads_of_block = 1024;

/// Shared memory of a block, in bytes: what every kernel may have, and what one may ask for on every generation that
/// this is built for (8.0; later ones have more).
inline constexpr size_t usual_shared_memory = size_t{48} << 10, most_shared_memory = size_t{163} << 10;

/// Blocks of a launch.
struct Blocks {
  int64_t x, y;
  constexpr Blocks(int64_t x_, int64_t y_ = 1) : x(x_), y(y_) {}
  constexpr bool none() const { return x == 0 || y == 0; }
  constexpr bool possible() const { return x >= 0 && x <= most_blocks_x && y >= 0 && y <= most_blocks_y; }
};

/// Blocks for n items, `per_block` each.
constexpr int64_t blocks_of(int64_t n, int64_t per_block) { return (n + per_block - 1) / per_block; }

/// The same, at most so many: of kernels that loop over items with a stride of the whole grid.
constexpr int64_t blocks_of_loop(int64_t n, int64_t per_block, int64_t most) {
  return std::clamp<int64_t>(blocks_of(n, per_block), 0, most);
}

/// Whether an address and distances in elements of `size` bytes are multiples of `elements` elements.
inline bool multiples_of(int elements, size_t size, const void* address, std::initializer_list<int64_t> distances) {
  return reinterpret_cast<uintptr_t>(address) % (size * static_cast<size_t>(elements)) == 0 &&
         std::ranges::all_of(distances, [elements](int64_t d) { return d % elements == 0; });
}

}  // namespace hexad::kernels::cuda
