// Byte layout of a tensor's row for exchanges between ranks.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "framework/base/dtype.h"

namespace hexad::kernels {

/// Format of the rows. `model` keeps the dtype and the bits of the elements. `fp8` rounds the elements to e4m3 with one
/// f32 scale per row (framework/base/fp8.h describes the format and its error).
enum class WireFormat : uint8_t { model, fp8 };
constexpr auto enum_names(WireFormat) {
  return std::to_array<std::pair<WireFormat, std::string_view>>(
      {{WireFormat::model, "model"}, {WireFormat::fp8, "fp8"}});
}

/// Layout of one row of `width` elements of `dtype`, with `row_weights` additional numbers. Each number is a router
/// weight or the gradient of a router weight. These numbers are never rounded. Their dtype is f32, or f64 if the
/// elements are f64. A row consists of the parts below, in the byte order of the machine. Each part is aligned to the
/// size of its elements. Gaps contain zeros.
///
///     values | scale (fp8 only) | row_weights | padding to a multiple of 8 bytes
struct WireLayout {
  int64_t values;       // bytes of the values, which begin at offset 0
  int64_t scale;        // offset of the f32 scale; end of the values if there is no scale
  int64_t row_weights;  // offset of the row weights
  int64_t bytes;        // bytes of the row, including the padding
};
inline WireLayout wire_layout(WireFormat format, base::Dtype dtype, int64_t width, int64_t row_weights) {
  const auto up = [](int64_t bytes, int64_t multiple) { return (bytes + multiple - 1) / multiple * multiple; };
  const bool fp8 = format == WireFormat::fp8;
  const int64_t weight_bytes = base::size_of(base::accumulator_dtype(dtype));
  WireLayout layout{.values = width * (fp8 ? 1 : base::size_of(dtype)), .scale = 0, .row_weights = 0, .bytes = 0};
  layout.scale = fp8 ? up(layout.values, 4) : layout.values;
  layout.row_weights = up(layout.scale + (fp8 ? 4 : 0), weight_bytes);
  layout.bytes = up(layout.row_weights + row_weights * weight_bytes, 8);
  return layout;
}
inline int64_t wire_row_bytes(WireFormat format, base::Dtype dtype, int64_t width, int64_t row_weights) {
  return wire_layout(format, dtype, width, row_weights).bytes;
}

}  // namespace hexad::kernels
