// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11). A
// number depends only on (seed, purpose, name, step, global index) and not on the parallel layout.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace hexad::base {

/// Purpose of a stream of random numbers. It is part of the key, so streams for different purposes are independent.
enum class Purpose : uint32_t {
  init = 1,
  shuffle = 2,
  mask = 3,
  jitter = 4,
  dropout = 5,
  sample = 6,
  synthetic = 7,
  route = 8,
  round = 9,
  noise = 10
};

/// Returns the block of four 32-bit words for `counter` under `key`.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Returns the 64-bit FNV-1a hash of a name. The hash must be the same on all machines and in all releases, because
/// initial weights depend on the hash.
uint64_t stable_hash(std::string_view name);

/// Random numbers as a function of a global index.
class Philox {
 public:
  Philox(uint64_t seed, Purpose purpose, std::string_view name = {}, uint64_t step = 0);

  uint32_t bits(uint64_t index) const;
  /// Returns a uniform number in [0, 1) with 24 random bits.
  float uniform(uint64_t index) const;
  /// Returns a uniform number in [0, 1) with 53 random bits.
  double uniform_double(uint64_t index) const;
  /// Returns a standard normal number (Box-Muller in float; see normal.cpp).
  float normal(uint64_t index) const;
  /// Fills `out` with normal(first), normal(first + 1), ... The call takes a few nanoseconds per number, because many
  /// numbers are computed together.
  void normals(std::span<float> out, uint64_t first) const;
  /// Returns a uniform integer in [0, bound), by a 64-bit multiplication whose bias is too small to measure.
  uint64_t below(uint64_t index, uint64_t bound) const;

 private:
  std::array<uint32_t, 4> block(uint64_t index) const;
  std::array<uint32_t, 2> key_;   // computed from seed and purpose
  std::array<uint32_t, 2> high_;  // upper words of the counter, from name and step
};

}  // namespace hexad::base
