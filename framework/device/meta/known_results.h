// Cache of results of computations on known values of a meta device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace hexad::device {

/// Cache of the results of computations on known values. Layers and micro-batches with equal routing repeat the same
/// computations. Keeps the latest results, up to a number of bytes. Not thread-safe.
class KnownResults {
 public:
  static constexpr size_t usual_bytes = size_t{128} << 20;

  /// Makes a cache that keeps at most `max_bytes` bytes of operands and results.
  explicit KnownResults(size_t max_bytes = usual_bytes) : max_bytes_(max_bytes) {}
  KnownResults(const KnownResults&) = delete;
  KnownResults& operator=(const KnownResults&) = delete;

  /// Everything on which the results of a computation depend.
  struct Computation {
    std::string_view kernel;
    std::vector<int64_t> numbers;  // sizes of operands and results, and parameters of the kernel
    std::span<const std::byte> operand;
  };
  /// Writes the results of a computation. If the results of an equal computation are kept, copies them. Otherwise calls
  /// `compute`, which must write all bytes of `results`. A result may be in the memory of the operand.
  void write(const Computation& computation, std::span<const std::span<std::byte>> results,
             const std::function<void()>& compute);
  /// Returns the number of calls of `compute`.
  int64_t computed() const { return computed_; }

 private:
  using Key = std::tuple<std::string, std::vector<int64_t>, size_t>;  // kernel, numbers, and bytes of the operand
  struct Kept {
    std::vector<std::byte> operand;
    std::vector<std::vector<std::byte>> results;
    size_t bytes = 0;  // bytes of the operand and the results
  };
  using AllKept = std::multimap<Key, Kept>;
  const Kept* find(const Key& key, std::span<const std::byte> operand) const;
  void keep(Key key, Kept kept);

  const size_t max_bytes_;
  size_t bytes_ = 0;                      // bytes of all kept operands and results
  AllKept kept_;                          // sorted by key for fast lookups: it can hold thousands of results
  std::deque<AllKept::iterator> by_age_;  // oldest computation first
  int64_t computed_ = 0;
};

}  // namespace hexad::device
