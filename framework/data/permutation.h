// A pseudo-random order of 0 ... n - 1 that is computed, not stored.
#pragma once

#include <cstdint>

#include "framework/base/philox.h"

namespace hexad::data {

/// A keyed permutation in O(1) memory and, on average, O(1) time: a Feistel network whose halves are numbers below a
/// and b, a b being the least such product of about equal factors that is no less than n, with Philox as its round
/// function; a value that leaves [0, n) goes through it again until it is back (Black, Rogaway, "Ciphers with arbitrary
/// finite domains", CT-RSA 2002: the generalized Feistel cipher, and cycle walking).
class Permutation {
 public:
  /// Permutes 0 ... count - 1, drawn from `random` alone. count >= 0.
  Permutation(int64_t count, base::Philox random);

  /// 0 <= index < count; throws std::logic_error otherwise.
  int64_t operator()(int64_t index) const;

 private:
  uint64_t once(uint64_t index) const;

  uint64_t count_, left_, right_;  // left_ * right_ >= count_
  base::Philox random_;
};

}  // namespace hexad::data
