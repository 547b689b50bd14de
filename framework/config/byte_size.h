// A number of bytes, which recipes write as 4GiB, 512MiB, 1.5GB or a plain integer.
#pragma once

#include <cstdint>

namespace hexad::config {

/// Type of byte counts in recipe structs. Recipes may write a ByteSize with a unit, but an int64_t only without a unit.
struct ByteSize {
  int64_t bytes = 0;

  constexpr ByteSize(int64_t n = 0) : bytes(n) {}
  constexpr operator int64_t() const { return bytes; }
};

}  // namespace hexad::config
