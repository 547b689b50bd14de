// What memory is used for, and the account kept of it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace hexad::device {

/// Every allocation carries one; peaks are reported by category.
enum class Category : uint8_t { parameter, gradient, optimizer, activation, temporary, communication, offload };
inline constexpr int category_count = 7;
std::string_view name_of(Category category);

std::string human_bytes(int64_t bytes);  // "1.50 MB": three digits, powers of 1000

/// Bytes in use and their peaks. `peak_total` is the peak of the sum, at most the sum of the peaks; the offload
/// category lies in files and is not part of `total`.
struct MemoryStats {
  std::array<int64_t, category_count> used{}, peak{};
  int64_t total = 0, peak_total = 0;

  int64_t used_in(Category c) const { return used[static_cast<size_t>(c)]; }
  int64_t peak_in(Category c) const { return peak[static_cast<size_t>(c)]; }
  std::string table() const;  // one line a category, for out-of-memory messages
};

}  // namespace hexad::device
