// Weights stored in fp8 with a scale for each block of 128 x 128 elements (DeepSeek-V3, 2024, section 3.3.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "framework/base/shape.h"

namespace hexad::interop {

constexpr std::string_view fp8_dtype = "F8_E4M3";

/// Returns the name of the scales of a weight, for example "q_proj.weight_scale_inv".
std::string scales_of(const std::string& weight);
/// Returns the shape of the scales of a matrix: one scale for each block. The last block of a row or column may be
/// incomplete.
base::Shape shape_of_scales(const base::Shape& matrix);

/// Writes elements of a matrix with `columns` columns as bf16. Each element is its code times the scale of its block,
/// rounded to bf16. codes[0] is the code of element `first` of the matrix, in row-major order. `scales` has the scales
/// of the whole matrix.
void dequantise(std::byte* to, std::span<const std::byte> codes, std::span<const float> scales, int64_t first,
                int64_t columns);

}  // namespace hexad::interop
