// Parity cases at shapes that take the fast paths of a GPU: rows on multiples of 16 bytes, heads of 64 and 128, tiles
// of products that are full in the middle and cut at the ends.
#pragma once

#include "tests/kernels/cases.h"

namespace hexad::tests {

/// They bring their shapes and do not look at the trial's size.
std::vector<Case> aligned_cases();

/// More sizes for the cases of tests/kernels: widths that are multiples of 16 bytes, enough rows for several blocks.
const std::vector<Size>& aligned_sizes();

}  // namespace hexad::tests
