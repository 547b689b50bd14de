// A number of bytes as recipes write it: 4GiB, 512MiB, 1.5GB or a plain integer.
#pragma once

#include <cstdint>

namespace hexad::config {

/// Replaces int64_t in a recipe's struct for byte counts. Only its text form differs.
struct ByteSize {
  int64_t bytes = 0;

  constexpr ByteSize(int64_t n = 0) : bytes(n) {}
  constexpr operator int64_t() const { return bytes; }
};

}  // namespace hexad::config
