// Pseudo-random order of 0 ... n - 1 that is computed instead of stored.
#pragma once

#include <cstdint>

#include "framework/base/philox.h"

namespace hexad::data {

/// A keyed permutation that needs O(1) memory and, on average, O(1) time. It is a Feistel network with Philox as its
/// round function. The halves of the network are numbers below a and below b. Here, a is the square root of n, rounded
/// up, and b is n / a, rounded up. A result outside [0, n) is permuted again until it is inside. Source: Black,
/// Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002 (generalized Feistel cipher and cycle walking).
class Permutation {
 public:
  /// Permutes 0 ... count - 1. The order depends only on `random` and `count`. `count` must not be negative.
  Permutation(int64_t count, base::Philox random);

  /// Returns the number at position `index`. Throws std::logic_error if `index` is not in [0, count).
  int64_t operator()(int64_t index) const;

 private:
  uint64_t once(uint64_t index) const;

  uint64_t count_, left_, right_;  // bounds of the halves: left_ * right_ >= count_
  base::Philox random_;
};

}  // namespace hexad::data
