// Cache of values by problem, for products. Also rounds numbers of rows, so that products with similar numbers share
// the choice of a kernel.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace hexad::kernels::cuda {

/// Returns `rows` (positive) rounded up to a multiple of p / 8, where p is the largest power of two up to `rows`. The
/// result is at most 12.5% larger. From one power of two to the next, there are at most eight different results.
/// Numbers up to 16 do not change.
constexpr int64_t rounded_rows(int64_t rows) {
  const auto step = std::max<int64_t>(1, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(rows))) / 8);
  return (rows + step - 1) / step * step;
}

/// Cache of at most `most` values by key. A full cache removes the least recently used half of its values.
template <class Key, class Value>
class ProblemCache {
 public:
  /// Makes an empty cache. `most` must be at least one.
  explicit ProblemCache(size_t most) : most_(most) {}

  /// Returns the value of `key`. If the cache has no value for `key`, calls make() and stores the result. The reference
  /// is valid until the next call.
  template <class Make>
  Value& get(const Key& key, const Make& make) {
    auto known = entries_.find(key);
    if (known == entries_.end()) {
      Value value = make();
      if (entries_.size() >= most_) forget();
      known = entries_.emplace(key, Entry{std::move(value), 0}).first;
    }
    known->second.used = ++calls_;
    return known->second.value;
  }

 private:
  struct Entry {
    Value value;
    uint64_t used;  // number of the last call that returned this value
  };

  void forget() {
    std::vector<uint64_t> used;
    for (const auto& [key, entry] : entries_) used.push_back(entry.used);
    const auto middle = used.begin() + (std::ssize(used) - 1) / 2;
    std::nth_element(used.begin(), middle, used.end());
    std::erase_if(entries_, [last = *middle](const auto& e) { return e.second.used <= last; });
  }

  size_t most_;
  uint64_t calls_ = 0;
  std::map<Key, Entry> entries_;
};

}  // namespace hexad::kernels::cuda
