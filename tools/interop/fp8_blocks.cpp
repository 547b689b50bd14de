#include "tools/interop/fp8_blocks.h"

#include <cstring>

#include "framework/base/dtype.h"
#include "framework/base/fp8.h"

namespace hexad::interop {

namespace {

constexpr int64_t block = 128;

int64_t blocks_in(int64_t elements) { return (elements + block - 1) / block; }

}  // namespace

std::string scales_of(const std::string& weight) { return weight + "_scale_inv"; }

base::Shape shape_of_scales(const base::Shape& matrix) { return {blocks_in(matrix[0]), blocks_in(matrix[1])}; }

void dequantise(std::byte* to, std::span<const std::byte> codes, std::span<const float> scales, int64_t first,
                int64_t columns) {
  const int64_t blocks = blocks_in(columns);
  int64_t row = first / columns, column = first % columns;
  for (const std::byte code : codes) {
    const float scale = scales[row / block * blocks + column / block];
    const base::bf16 value(static_cast<float>(base::e4m3::from_bits(std::to_integer<uint8_t>(code))) * scale);
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
    if (++column == columns) column = 0, ++row;
  }
}

}  // namespace hexad::interop
