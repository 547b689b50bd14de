#include "tools/interop/latent_rows.h"

#include <cstring>

namespace hexad::interop {

namespace {

// Appends `count` consecutive rows.
void append(std::vector<int64_t>& order, int64_t first, int64_t count) {
  for (int64_t i = 0; i < count; ++i) order.push_back(first + i);
}

// Appends `size` rows that are pairs in the foreign tensor: the first rows of all pairs, then the second rows.
void append_halves(std::vector<int64_t>& order, int64_t first, int64_t size) {
  for (int64_t second = 0; second < 2; ++second)
    for (int64_t i = 0; i < size / 2; ++i) order.push_back(first + 2 * i + second);
}

}  // namespace

std::vector<int64_t> halves_of_pairs(int64_t heads, int64_t head, int64_t rotary) {
  std::vector<int64_t> order;
  for (int64_t h = 0; h < heads; ++h) {
    append_halves(order, h * head, rotary);
    append(order, h * head + rotary, head - rotary);
  }
  return order;
}

std::vector<int64_t> LatentRows::queries() const {
  std::vector<int64_t> order;
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t first = h * (nope + rope);
    append_halves(order, first + nope, rope);
    append(order, first, nope);
  }
  return order;
}

std::vector<int64_t> LatentRows::down() const {
  std::vector<int64_t> order;
  append(order, 0, kv_rank);
  append_halves(order, kv_rank, rope);
  return order;
}

std::vector<int64_t> LatentRows::up() const {
  std::vector<int64_t> order;
  for (int64_t h = 0; h < heads; ++h) append(order, h * (nope + value), nope);
  for (int64_t h = 0; h < heads; ++h) append(order, h * (nope + value) + nope, value);
  return order;
}

std::vector<int64_t> parts_of_groups(int64_t groups, std::span<const int64_t> sizes) {
  std::vector<int64_t> order;
  int64_t group = 0, before = 0;
  for (const int64_t size : sizes) group += size;
  for (const int64_t size : sizes) {
    for (int64_t g = 0; g < groups; ++g) append(order, g * group + before, size);
    before += size;
  }
  return order;
}

void gather_rows(std::byte* to, const std::byte* from, std::span<const int64_t> order, int64_t row_bytes) {
  for (const int64_t row : order) {
    std::memcpy(to, from + row * row_bytes, row_bytes);
    to += row_bytes;
  }
}

void scatter_rows(std::byte* to, const std::byte* from, std::span<const int64_t> order, int64_t row_bytes) {
  for (const int64_t row : order) {
    std::memcpy(to + row * row_bytes, from, row_bytes);
    from += row_bytes;
  }
}

}  // namespace hexad::interop
