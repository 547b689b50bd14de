#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "framework/base/fp8.h"
#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/cpu/simd/wire_loops.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

template <class To, class From>
void copy_bytes(To* to, const From* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

template <class T>
const WireLoops<T>& loops() {
  return choose<T>(v3::wire_loops, v4::wire_loops);
}

/// Returns the scale of a row whose largest magnitude has the bits `largest_bits`: NaN if this magnitude is not finite.
/// The scale is never a subnormal float, because the rounding of a subnormal could make the quotient overflow the
/// format.
float scale_of(uint32_t largest_bits) {
  const float largest = std::bit_cast<float>(largest_bits);
  if (!std::isfinite(largest)) return std::numeric_limits<float>::quiet_NaN();
  return largest > 0 ? std::max(largest / e4m3::largest, std::numeric_limits<float>::min()) : 0;
}

/// Computes the codes and the scale of one row.
template <class T>
void encode_row(uint8_t* row, const T* x, int64_t width, const WireLayout& layout) {
  const float scale = scale_of(loops<T>().largest_bits(x, width));
  if (std::isnan(scale))
    std::memset(row, e4m3::nan, width);
  else
    loops<T>().encode(row, x, scale > 0 ? scale : 1, width);
  copy_bytes(row + layout.scale, &scale, sizeof(scale));
}

template <class T>
void decode_row(T* out, const uint8_t* row, int64_t width, const WireLayout& layout) {
  float scale;
  copy_bytes(&scale, row + layout.scale, sizeof(scale));
  loops<T>().decode(out, row, scale, width);
}

/// Returns the elements of `t`, which has `rows` rows; null if it is undefined.
template <class A>
A* row_weights_of(std::string_view op, std::string_view name, const Tensor& t, int64_t rows) {
  if (!t.defined()) return nullptr;
  require(t.rank() == 2 && t.dim(0) == rows && t.contiguous(), "[", op, "] ", name, " has shape ", t.shape(),
          " and strides ", t.strides(), "; expected ", rows, " contiguous rows");
  return t.data<A>();
}

void pack(Stream& stream, const Tensor& bytes, const Tensor& x, const Tensor& index, const Tensor& row_weights,
          WireFormat format) {
  stream.run([=] {
    with_dtype<float, bf16, double>("pack", x.dtype(), [&]<class T>() {
      const Rows<T> X(x);
      const int64_t rows = index.defined() ? index.numel() : X.count(), width = X.width();
      const auto* weights = row_weights_of<accumulator_t<T>>("pack", "row_weights", row_weights, rows);
      const int64_t count = row_weights.defined() ? row_weights.dim(1) : 0,
                    weight_bytes = count * int64_t{sizeof(*weights)};
      const WireLayout layout = wire_layout(format, x.dtype(), width, count);
      require_shape("pack", "bytes", bytes, {rows, layout.bytes});
      require_flat("pack", "bytes", bytes, rows * layout.bytes);
      const int64_t* from = index.defined() ? checked_indices<int64_t>("pack", "index", index, -1, X.count()) : nullptr;
      parallel_for(rows, row_grain(width), [&, to = bytes.data<uint8_t>()](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          uint8_t* row = to + r * layout.bytes;
          if (from && from[r] < 0) {
            std::memset(row, 0, layout.bytes);
            continue;
          }
          const T* in = X[from ? from[r] : r];
          std::memset(row + layout.values, 0, layout.bytes - layout.values);
          if (format == WireFormat::fp8)
            encode_row(row, in, width, layout);
          else
            copy_bytes(row, in, layout.values);
          copy_bytes(row + layout.row_weights, weights + r * count, weight_bytes);
        }
      });
    });
  });
}

void unpack(Stream& stream, const Tensor& out, const Tensor& row_weights_out, const Tensor& bytes, const Tensor& index,
            WireFormat format) {
  stream.run([=] {
    with_dtype<float, bf16, double>("unpack", out.dtype(), [&]<class T>() {
      const Rows<T> Out(out);
      const int64_t rows = index.defined() ? index.numel() : Out.count(), width = Out.width();
      auto* weights = row_weights_of<accumulator_t<T>>("unpack", "row_weights_out", row_weights_out, rows);
      const int64_t count = row_weights_out.defined() ? row_weights_out.dim(1) : 0,
                    weight_bytes = count * int64_t{sizeof(*weights)};
      const WireLayout layout = wire_layout(format, out.dtype(), width, count);
      require(bytes.rank() == 2 && bytes.dim(0) == rows && bytes.contiguous() &&
                  (bytes.dim(1) == layout.bytes || (!weights && bytes.dim(1) > layout.bytes)),
              "[unpack] bytes has shape ", bytes.shape(), " and strides ", bytes.strides(), "; expected ", rows,
              " contiguous rows of ", layout.bytes, " bytes", weights ? "" : " or more");
      const int64_t stride = bytes.dim(1);
      const int64_t* to = index.defined() ? distinct_indices("unpack", "index", index, -1, Out.count()) : nullptr;
      parallel_for(rows, row_grain(width), [&, from = bytes.data<uint8_t>()](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const uint8_t* row = from + r * stride;
          copy_bytes(weights + r * count, row + layout.row_weights, weight_bytes);
          if (to && to[r] < 0) continue;
          T* y = Out[to ? to[r] : r];
          if (format == WireFormat::fp8)
            decode_row(y, row, width, layout);
          else
            copy_bytes(y, row, layout.values);
        }
      });
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const WireKernels WireKernels::of_cpu{.pack = cpu::pack, .unpack = cpu::unpack};

}  // namespace hexad::kernels
