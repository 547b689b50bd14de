// Parity cases whose shapes use the fast paths of a GPU: rows at multiples of 16 bytes, heads of 64 and 128, and tiles
// of products that are full in the middle and partial at the ends.
#pragma once

#include "tests/kernels/cases.h"

namespace hexad::tests {

/// Returns cases with fixed shapes, which ignore the trial's size.
std::vector<Case> aligned_cases();

/// Returns more sizes for the cases of tests/kernels: widths that are multiples of 16 bytes, and rows for several
/// blocks.
const std::vector<Size>& aligned_sizes();

}  // namespace hexad::tests
