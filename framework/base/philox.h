// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11).
// A number is a pure function of (seed, purpose, name, global index), so no result depends on the parallel layout.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace hexad::base {

/// Purpose of a stream of random numbers; part of the key, so that purposes never share numbers.
enum class Purpose : uint32_t {
  init = 1,
  shuffle = 2,
  mask = 3,
  jitter = 4,
  dropout = 5,
  sample = 6,
  synthetic = 7,
  route = 8
};

/// One block of four 32-bit words for `counter` under `key`.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// 64-bit FNV-1a of a name: stable across machines and releases, because initial weights depend on it.
uint64_t stable_hash(std::string_view name);

/// A random function of a global index.
class Philox {
 public:
  Philox(uint64_t seed, Purpose purpose, std::string_view name = {}, uint64_t step = 0);

  uint32_t bits(uint64_t index) const;
  /// Uniform in [0, 1), 24 bits.
  float uniform(uint64_t index) const;
  /// Uniform in [0, 1), 53 bits.
  double uniform_double(uint64_t index) const;
  /// Standard normal (Box-Muller in float, as in normal.cpp).
  float normal(uint64_t index) const;
  /// normal(first), normal(first + 1), ...: many at a time, a few nanoseconds each.
  void normals(std::span<float> out, uint64_t first) const;
  /// Uniform integer in [0, bound), without modulo bias worth measuring (64-bit multiply).
  uint64_t below(uint64_t index, uint64_t bound) const;

 private:
  std::array<uint32_t, 4> block(uint64_t index) const;
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 2> high_;  // upper counter words: purpose, name and step
};

}  // namespace hexad::base
