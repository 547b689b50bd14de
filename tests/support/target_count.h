// Number of targets in a batch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "framework/data/source.h"

namespace hexad::tests {

/// Returns the number of targets that are not ignored.
inline int64_t target_count(const data::Batch& batch) {
  return std::ssize(batch.targets) - std::ranges::count(batch.targets, data::ignored);
}

}  // namespace hexad::tests
