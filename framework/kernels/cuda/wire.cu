// Converts rows to the wire format (framework/kernels/wire.h) and back, with one warp per row.
#include <cuda_fp8.h>

#include <bit>
#include <cfloat>

#include "framework/base/fp8.h"
#include "framework/kernels/cuda/launch.cuh"
#include "framework/kernels/cuda/matrix.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
using namespace tensor;
namespace {

constexpr int warps = 8, threads = warps * warp_size;
constexpr int batch = 4;         // accesses in flight per lane
constexpr int codes_a_lane = 8;  // number of fp8 codes that a lane converts at a time if rows are aligned

__device__ int lane_id() { return static_cast<int>(threadIdx.x) % warp_size; }
__device__ int64_t warp_id() { return int64_t{blockIdx.x} * warps + threadIdx.x / warp_size; }

/// Rows of bytes, and the rows of row_weights that they contain.
struct Wire {
  uint8_t* bytes;
  int64_t stride;        // distance between rows, in bytes
  uint8_t* row_weights;  // null: row weights are not needed
  int64_t weight_bytes;
  WireLayout layout;
  int64_t rows;
  const int64_t* index;  // row of the tensor for each row of bytes (-1: none); null: the row with the same number
};

template <class V>
__device__ __forceinline__ void copy_row(V* to, const V* from, int64_t count) {
  for (int64_t first = lane_id(); first < count; first += batch * warp_size) {
    V held[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b)
      if (first + b * warp_size < count) held[b] = from[first + b * warp_size];
#pragma unroll
    for (int b = 0; b < batch; ++b)
      if (first + b * warp_size < count) to[first + b * warp_size] = held[b];
  }
}

/// Writes the part of row r that follows the values: the scale (if there is one), the row_weights, and zeros in the
/// gaps.
__device__ void write_tail(const Wire& wire, uint8_t* row, int64_t r, bool scaled, float scale) {
  const WireLayout& layout = wire.layout;
  for (int64_t i = layout.values + lane_id(); i < layout.bytes; i += warp_size) {
    const int64_t in_scale = i - layout.scale, in_row_weights = i - layout.row_weights;
    uint8_t byte = 0;
    if (scaled && in_scale >= 0 && in_scale < 4)
      byte = static_cast<uint8_t>(__float_as_uint(scale) >> (8 * in_scale));
    else if (in_row_weights >= 0 && in_row_weights < wire.weight_bytes)
      byte = wire.row_weights[r * wire.weight_bytes + in_row_weights];
    row[i] = byte;
  }
}

__device__ void read_row_weights(const Wire& wire, const uint8_t* row, int64_t r) {
  if (!wire.row_weights) return;
  for (int64_t i = lane_id(); i < wire.weight_bytes; i += warp_size)
    wire.row_weights[r * wire.weight_bytes + i] = row[wire.layout.row_weights + i];
}

/// Returns the row of the tensor that belongs to row r of bytes; -1 if there is none.
__device__ int64_t tensor_row(const Wire& wire, int64_t r) { return wire.index ? wire.index[r] : r; }

/// Writes zeros to a row of bytes without a source row in the tensor.
__device__ void write_zeros(const Wire& wire, uint8_t* row) {
  for (int64_t i = lane_id(); i < wire.layout.bytes; i += warp_size) row[i] = 0;
}

/// Copies rows of the tensor to rows of bytes without rounding. V is the type of one access.
template <class V, class D>
__global__ void __launch_bounds__(threads) pack_kernel(const __grid_constant__ Wire wire, Rows<D> x) {
  const int64_t r = warp_id();
  if (r >= wire.rows) return;
  uint8_t* const row = wire.bytes + r * wire.stride;
  const int64_t source = tensor_row(wire, r);
  if (source < 0) return write_zeros(wire, row);
  const D* const from = x.data + source * x.stride[0];
  copy_row(reinterpret_cast<V*>(row), reinterpret_cast<const V*>(from), wire.layout.values / int64_t{sizeof(V)});
  write_tail(wire, row, r, false, 0);
}

template <class V, class D>
__global__ void __launch_bounds__(threads) unpack_kernel(Rows<D> out, const __grid_constant__ Wire wire) {
  const int64_t r = warp_id();
  if (r >= wire.rows) return;
  const uint8_t* const row = wire.bytes + r * wire.stride;
  read_row_weights(wire, row, r);
  const int64_t target_row = tensor_row(wire, r);
  if (target_row < 0) return;
  D* const target = out.data + target_row * out.stride[0];
  copy_row(reinterpret_cast<V*>(target), reinterpret_cast<const V*>(row), wire.layout.values / int64_t{sizeof(V)});
}

/// N fp8 codes in one integer. The first code is in the lowest byte.
template <int N>
using Codes = std::conditional_t<N == 1, uint8_t, uint64_t>;

/// N elements, read or written with the widest possible accesses.
template <class D, int N>
struct Elements {
  static constexpr int together = std::min(N, wide<D>);
  Vector<D, together> part[N / together];
  __device__ D& operator[](int n) { return part[n / together].at[n % together]; }
};

/// Returns the scale of a row whose largest magnitude is `largest`: NaN if `largest` is not finite, and 0 if `largest`
/// is 0. Other scales are never subnormal floats, because the rounding of a subnormal could make the quotient overflow
/// the format.
__device__ float scale_of(float largest) {
  if (!(largest <= FLT_MAX)) return __uint_as_float(0x7fc00000u);
  return largest > 0 ? fmaxf(largest / base::e4m3::largest, FLT_MIN) : 0;
}

/// Computes x / divisor for many x, from the rounded reciprocal of the divisor. Two corrections by the exact remainder
/// remove an error of a few units in the last place of the quotient (Markstein 1990). The result equals the result of a
/// division, except if the result is so small that its code is zero.
struct Divider {
  float divisor, reciprocal;
  bool exact;  // false: a remainder might be a subnormal float, so a division is used
  __device__ explicit Divider(float divisor_)
      : divisor(divisor_), reciprocal(1 / divisor_), exact(divisor_ >= 0x1p-80f && divisor_ <= 0x1p80f) {}
  __device__ float operator()(float x) const {
    if (!exact) return x / divisor;
    float q = x * reciprocal;
    q = fmaf(fmaf(-q, divisor, x), reciprocal, q);
    q = fmaf(fmaf(-q, divisor, x), reciprocal, q);
    return copysignf(q, x);  // the correction by the remainder would lose the sign of -0
  }
};

/// Encodes rows, N elements at a time.
template <class D, int N>
__global__ void __launch_bounds__(threads) encode_kernel(const __grid_constant__ Wire wire, Rows<D> x) {
  const int64_t r = warp_id();
  if (r >= wire.rows) return;
  uint8_t* const row = wire.bytes + r * wire.stride;
  const int64_t source = tensor_row(wire, r);
  if (source < 0) return write_zeros(wire, row);
  const auto* const from = reinterpret_cast<const Elements<D, N>*>(x.data + source * x.stride[0]);
  auto* const codes = reinterpret_cast<Codes<N>*>(row);
  const int64_t width = x.width / N;

  // Non-negative floats have the same order as their bits, read as integers. The bits of infinity and NaN are larger
  // than the bits of any number.
  uint32_t largest = 0;
#pragma unroll 4
  for (int64_t v = lane_id(); v < width; v += warp_size) {
    Elements<D, N> elements = from[v];
#pragma unroll
    for (int n = 0; n < N; ++n) largest = max(largest, __float_as_uint(to<float>(elements[n])) & 0x7fffffffu);
  }
  largest = __reduce_max_sync(0xffffffffu, largest);
  const float scale = scale_of(__uint_as_float(largest));
  const bool poisoned = scale != scale;
  const Divider quotient(scale > 0 ? scale : 1);

#pragma unroll 2
  for (int64_t v = lane_id(); v < width; v += warp_size) {
    Elements<D, N> elements = from[v];
    Codes<N> code = 0;
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const float value = quotient(to<float>(elements[n]));
      const uint8_t one = poisoned ? base::e4m3::nan : __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
      code |= static_cast<Codes<N>>(Codes<N>{one} << (8 * n));
    }
    codes[v] = code;
  }
  write_tail(wire, row, r, true, scale);
}

/// Returns the value of a code, like base::e4m3. The multiplication corrects the exponents of all values, including
/// subnormals.
__device__ float value_of(uint8_t code) {
  const uint32_t magnitude = code & 0x7fu;
  const float value =
      magnitude == base::e4m3::nan ? __uint_as_float(0x7fc00000u) : __uint_as_float(magnitude << 20) * 0x1p120f;
  return code & 0x80u ? -value : value;
}

template <class D, int N>
__global__ void __launch_bounds__(threads) decode_kernel(Rows<D> out, const __grid_constant__ Wire wire) {
  using A = sum_t<D>;
  const int64_t r = warp_id();
  if (r >= wire.rows) return;
  const uint8_t* const row = wire.bytes + r * wire.stride;
  read_row_weights(wire, row, r);
  const int64_t target_row = tensor_row(wire, r);
  if (target_row < 0) return;
  const auto* const codes = reinterpret_cast<const Codes<N>*>(row);
  auto* const target = reinterpret_cast<Elements<D, N>*>(out.data + target_row * out.stride[0]);
  uint32_t bits = 0;  // assembled from bytes, because rows may be at any address
  for (int i = 0; i < 4; ++i) bits |= uint32_t{row[wire.layout.scale + i]} << (8 * i);
  const A scale = __uint_as_float(bits);
#pragma unroll 4
  for (int64_t v = lane_id(); v < out.width / N; v += warp_size) {
    const Codes<N> code = codes[v];
    Elements<D, N> elements;
#pragma unroll
    for (int n = 0; n < N; ++n)
      elements[n] = to<D>(scale * static_cast<A>(value_of(static_cast<uint8_t>(code >> (8 * n)))));
    target[v] = elements;
  }
}

/// Returns the bytes of `row_weights` per row; 0 if it is undefined. Throws std::logic_error if its shape, strides or
/// dtype is wrong.
int64_t bytes_of_row_weights(std::string_view op, std::string_view name, const Tensor& row_weights, int64_t rows,
                             Dtype dtype) {
  if (!row_weights.defined()) return 0;
  require(row_weights.rank() == 2 && row_weights.dim(0) == rows && row_weights.contiguous(), "[", op, "] ", name,
          " has shape ", row_weights.shape(), " and strides ", row_weights.strides(), "; expected ", rows,
          " contiguous rows");
  require(row_weights.dtype() == accumulator_dtype(dtype), "[", op, "] ", name, " is ", row_weights.dtype(),
          "; expected ", accumulator_dtype(dtype), " for rows of ", dtype);
  return row_weights.dim(1) * size_of(row_weights.dtype());
}

/// True if all rows of bytes begin at multiples of `bytes`.
bool aligned(const Wire& wire, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(wire.bytes) % static_cast<uintptr_t>(bytes) == 0 && wire.stride % bytes == 0;
}

/// Calls f with a value of type uint4, uint2 or D. Chooses the widest type at whose multiples all rows begin, both the
/// rows of bytes and the rows of the tensor. Throws std::logic_error if the rows of bytes do not suit D.
template <class D, class F>
void with_copy(const Wire& wire, const Rows<D>& rows, const F& f) {
  constexpr int eight = sizeof(D) < 8 ? 8 / static_cast<int>(sizeof(D)) : 1;
  if (aligned(wire, 16) && rows.aligned(wide<D>))
    f(uint4{});
  else if (aligned(wire, 8) && rows.aligned(eight))
    f(uint2{});
  else if (aligned(wire, sizeof(D)))
    f(D{});
  else
    require(false, "[wire] rows of bytes begin at ", static_cast<const void*>(wire.bytes), " and are ", wire.stride,
            " bytes apart; expected both to be multiples of ", sizeof(D), " bytes");
}

/// Calls f with the number of elements of fp8 rows that a lane can convert at a time.
template <class D, class F>
void with_codes(const Wire& wire, const Rows<D>& rows, const F& f) {
  if (aligned(wire, codes_a_lane) && rows.width % codes_a_lane == 0 && rows.aligned(wide<D>))
    f(std::integral_constant<int, codes_a_lane>{});
  else
    f(std::integral_constant<int, 1>{});
}

void pack(Stream& stream, const Tensor& bytes, const Tensor& x, const Tensor& index, const Tensor& row_weights,
          WireFormat format) {
  with_dtype<float, bf16, double>("pack", x.dtype(), [&]<class T>() {
    using D = device_t<T>;
    const Rows<D> from = matrix_of<T>("pack", x);
    const int64_t rows = index.defined() ? index.numel() : from.count;
    const int64_t weight_bytes = bytes_of_row_weights("pack", "row_weights", row_weights, rows, x.dtype());
    const WireLayout layout =
        wire_layout(format, x.dtype(), from.width, row_weights.defined() ? row_weights.dim(1) : 0);
    require_shape("pack", "bytes", bytes, {rows, layout.bytes});
    require_flat("pack", "bytes", bytes, rows * layout.bytes);
    if (index.defined()) require_flat("pack", "index", index, rows);
    const Wire wire{.bytes = pointer<uint8_t>(bytes),
                    .stride = layout.bytes,
                    .row_weights = row_weights.defined() ? static_cast<uint8_t*>(device_raw(row_weights)) : nullptr,
                    .weight_bytes = weight_bytes,
                    .layout = layout,
                    .rows = rows,
                    .index = pointer<int64_t>(index)};
    if (format == WireFormat::fp8)
      with_codes(wire, from, [&]<int N>(std::integral_constant<int, N>) {
        launch("pack", encode_kernel<D, N>, blocks_of(rows, warps), threads, stream, wire, from);
      });
    else
      with_copy(wire, from, [&]<class V>(V) {
        launch("pack", pack_kernel<V, D>, blocks_of(rows, warps), threads, stream, wire, from);
      });
  });
}

void unpack(Stream& stream, const Tensor& out, const Tensor& row_weights_out, const Tensor& bytes, const Tensor& index,
            WireFormat format) {
  with_dtype<float, bf16, double>("unpack", out.dtype(), [&]<class T>() {
    using D = device_t<T>;
    const Rows<D> target = matrix_of<T>("unpack", out);
    const int64_t rows = index.defined() ? index.numel() : target.count;
    const bool weights = row_weights_out.defined();
    const int64_t weight_bytes = bytes_of_row_weights("unpack", "row_weights_out", row_weights_out, rows, out.dtype());
    const WireLayout layout = wire_layout(format, out.dtype(), target.width, weights ? row_weights_out.dim(1) : 0);
    require(bytes.rank() == 2 && bytes.dim(0) == rows && bytes.contiguous() &&
                (bytes.dim(1) == layout.bytes || (!weights && bytes.dim(1) > layout.bytes)),
            "[unpack] bytes has shape ", bytes.shape(), " and strides ", bytes.strides(), "; expected ", rows,
            " contiguous rows of ", layout.bytes, " bytes", weights ? "" : " or more");
    if (index.defined()) require_flat("unpack", "index", index, rows);
    const Wire wire{.bytes = pointer<uint8_t>(bytes),
                    .stride = bytes.dim(1),
                    .row_weights = weights ? static_cast<uint8_t*>(device_raw(row_weights_out)) : nullptr,
                    .weight_bytes = weight_bytes,
                    .layout = layout,
                    .rows = rows,
                    .index = pointer<int64_t>(index)};
    if (format == WireFormat::fp8)
      with_codes(wire, target, [&]<int N>(std::integral_constant<int, N>) {
        launch("unpack", decode_kernel<D, N>, blocks_of(rows, warps), threads, stream, target, wire);
      });
    else
      with_copy(wire, target, [&]<class V>(V) {
        launch("unpack", unpack_kernel<V, D>, blocks_of(rows, warps), threads, stream, target, wire);
      });
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const WireKernels WireKernels::of_cuda{.pack = cuda::pack, .unpack = cuda::unpack};

}  // namespace hexad::kernels
