#include "framework/data/permutation.h"

#include <cmath>

#include "framework/base/error.h"

namespace hexad::data {
namespace {

// Four rounds suffice for a large domain (Luby and Rackoff). Small domains need more rounds.
constexpr uint64_t rounds = 8;

uint64_t ceiling_of_root(uint64_t n) {
  auto root = static_cast<uint64_t>(std::sqrt(static_cast<double>(n)));
  while (root * root > n) --root;  // the double may be too large, because its precision is 53 bits
  while (root * root < n) ++root;
  return root;
}

}  // namespace

Permutation::Permutation(int64_t count, base::Philox random)
    : count_(static_cast<uint64_t>(count)), left_(1), right_(1), random_(random) {
  base::require(count >= 0, "[permutation] count is ", count, "; expected at least 0");
  if (count == 0) return;
  left_ = ceiling_of_root(count_);
  right_ = (count_ + left_ - 1) / left_;
}

uint64_t Permutation::once(uint64_t index) const {
  uint64_t left = index / right_, right = index % right_;
  for (uint64_t round = 0; round < rounds; round += 2) {
    // Halves are below 2^32, so every (round, half) has its own index in the random sequence.
    left = (left + random_.below(round << 32 | right, left_)) % left_;
    right = (right + random_.below((round + 1) << 32 | left, right_)) % right_;
  }
  return left * right_ + right;
}

int64_t Permutation::operator()(int64_t index) const {
  auto at = static_cast<uint64_t>(index);
  base::require(index >= 0 && at < count_, "[permutation] index is ", index, "; expected at least 0 and below ",
                count_);
  do at = once(at);
  while (at >= count_);
  return static_cast<int64_t>(at);
}

}  // namespace hexad::data
