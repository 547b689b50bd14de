// Constant of ClampedSwigluKernels, for kernels that must not include the table.
#pragma once

namespace hexad::kernels {

/// Factor of the gate in the sigmoid (gpt-oss).
inline constexpr double clamped_swiglu_slope = 1.702;

}  // namespace hexad::kernels
