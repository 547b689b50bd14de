#include "framework/kernels/cuda/products/bf16_parts.h"

#include "framework/kernels/cuda/vectors.cuh"

namespace hexad::kernels::cuda {

using namespace base;
using namespace tensor;
namespace {

constexpr std::string_view op = "matmul in bf16 parts";
constexpr int threads = 256, per_thread = 4;
constexpr int64_t parts = 3;
constexpr int64_t aligned = 8;               // elements; cuBLASLt's fast kernels need rows at multiples of 16 bytes
constexpr int64_t large = int64_t{1} << 20;  // elements; for smaller matrices, launches take most of the time

/// Arrangement of the parts of a matrix: one below the other, [3 rows, columns], or side by side, [rows, 3 columns].
enum class Along : uint8_t { rows, columns };

constexpr Along other(Along along) { return along == Along::rows ? Along::columns : Along::rows; }

/// The parts to arrange: at[i] is the part in place i. 0 is hi, 1 is mid, 2 is lo. of_left and of_right are for two f32
/// factors: the product of the arranged parts is hi * hi + hi * mid + mid * hi.
struct Order {
  int at[parts];
};
constexpr Order all{{0, 1, 2}}, of_left{{0, 0, 1}}, of_right{{0, 1, 0}};

/// Division of a matrix among threads, with four elements of a row per thread, and layout of the parts of the matrix.
/// In the first part, element (r, c) is at r * row + c. Each part begins `part` elements after the previous part.
struct Grid {
  int64_t items, items_per_row, row, part;

  static Grid of(int64_t rows, int64_t columns, Along along) {
    const int64_t per_row = columns / per_thread;
    return along == Along::rows ? Grid{rows * per_row, per_row, columns, rows * columns}
                                : Grid{rows * per_row, per_row, parts * columns, columns};
  }
  int64_t blocks() const { return blocks_of(items, threads); }
};

struct Bf16Parts {
  __nv_bfloat16 hi, mid, lo;
};

__device__ Bf16Parts bf16_parts_of(float w) {
  __nv_bfloat16 hi = __float2bfloat16_rn(w);
  if (isinf(to<float>(hi))) hi = __float2bfloat16_rz(w);  // rounds toward zero, so that finite numbers remain finite
  const float rest = isfinite(w) ? w - to<float>(hi) : 0.0f;
  const __nv_bfloat16 mid = __float2bfloat16_rn(rest);
  return {hi, mid, __float2bfloat16_rn(rest - to<float>(mid))};
}

/// Splits a matrix into its parts, reading `at_once` elements at a time.
template <int at_once>
__global__ void __launch_bounds__(threads)
    split_kernel(__nv_bfloat16* out, Grid grid, Order order, const float* whole, int64_t stride) {
  const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= grid.items) return;
  const int64_t r = i / grid.items_per_row, c = i % grid.items_per_row * per_thread;
  Vector<__nv_bfloat16, per_thread> result[parts];
#pragma unroll
  for (int first = 0; first < per_thread; first += at_once) {
    const Vector<float, at_once> w = load<at_once>(whole + r * stride + c + first);
#pragma unroll
    for (int e = 0; e < at_once; ++e) {
      const Bf16Parts number = bf16_parts_of(w.at[e]);
#pragma unroll
      for (int p = 0; p < parts; ++p)
        result[p].at[first + e] = order.at[p] == 0 ? number.hi : order.at[p] == 1 ? number.mid : number.lo;
    }
  }
#pragma unroll
  for (int p = 0; p < parts; ++p) store(out + r * grid.row + c + p * grid.part, result[p]);
}

/// Writes or adds lo + mid + hi to `out`. Reads and writes `at_once` elements at a time.
template <int at_once, class Out>
__global__ void __launch_bounds__(threads) sum_kernel(Out* out, int64_t stride, const float* in, Grid grid, bool add) {
  const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= grid.items) return;
  const int64_t r = i / grid.items_per_row, c = i % grid.items_per_row * per_thread;
  const float* first_part = in + r * grid.row + c;
  const auto hi = load<per_thread>(first_part), mid = load<per_thread>(first_part + grid.part),
             lo = load<per_thread>(first_part + 2 * grid.part);
#pragma unroll
  for (int first = 0; first < per_thread; first += at_once) {
    Out* place = out + r * stride + c + first;
    Vector<Out, at_once> y{};
    if (add) y = load<at_once>(place);
#pragma unroll
    for (int e = 0; e < at_once; ++e) {
      const float sum = lo.at[first + e] + mid.at[first + e] + hi.at[first + e];
      y.at[e] = to<Out>(add ? to<float>(y.at[e]) + sum : sum);
    }
    store(place, y);
  }
}

/// Calls f<4>() if all groups of four elements of a row are aligned to their size, otherwise f<1>().
template <class F>
void with_width(const Matrix& m, const F& f) {
  const auto bytes = static_cast<uintptr_t>(per_thread * size_of(m.tensor.dtype()));
  if (m.stride % per_thread == 0 && reinterpret_cast<uintptr_t>(device_raw(m.tensor)) % bytes == 0) {
    f.template operator()<per_thread>();
  } else {
    f.template operator()<1>();
  }
}

Matrix room_for_parts(int64_t rows, int64_t columns, Along along, Dtype dtype, Device device) {
  (along == Along::rows ? rows : columns) *= parts;
  return {Tensor::empty({rows, columns}, dtype, device), rows, columns, columns};
}

/// Returns the bf16 parts of an f32 factor, arranged along the rows or columns of the factor.
Factor split(Stream& stream, const Factor& factor, Along along, const Order& order) {
  const Matrix& whole = factor.matrix;
  const Along stored = factor.transposed ? other(along) : along;
  const Matrix result = room_for_parts(whole.rows, whole.columns, stored, Dtype::bf16, whole.tensor.device());
  const Grid grid = Grid::of(whole.rows, whole.columns, stored);
  with_width(whole, [&]<int at_once>() {
    launch(op, split_kernel<at_once>, grid.blocks(), threads, stream, pointer<bf16>(result.tensor), grid, order,
           pointer<float>(whole.tensor), whole.stride);
  });
  return {result, factor.transposed};
}

void sum_of_parts(Stream& stream, const Matrix& out, const Matrix& in, Along along, Write write) {
  const Grid grid = Grid::of(out.rows, out.columns, along);
  with_dtype<float, bf16>(op, out.tensor.dtype(), [&]<class T>() {
    with_width(out, [&]<int at_once>() {
      launch(op, sum_kernel<at_once, device_t<T>>, grid.blocks(), threads, stream, pointer<T>(out.tensor), out.stride,
             pointer<float>(in.tensor), grid, write == Write::add);
    });
  });
}

/// True if a product with the bf16 matrix `m` is expected to be faster after splitting f32 operands of `n` rows or
/// columns. `m`, which is not split, must be large and aligned. The parts, or their f32 sums, must not take more memory
/// than `m` would take in f32.
bool pays(const Matrix& m, int64_t n) {
  return m.rows * m.columns >= large && parts * n <= m.columns && m.stride % aligned == 0 &&
         reinterpret_cast<uintptr_t>(device_raw(m.tensor)) % 16 == 0;
}

}  // namespace

bool multiply_in_parts(Stream& stream, const Matrix& out, const Factor& left, const Factor& right, Write write) {
  for (const Matrix* m : {&out, &left.matrix, &right.matrix})
    if (m->columns % aligned != 0) return false;
  if (left.dtype() == right.dtype())
    return out.tensor.dtype() == Dtype::bf16 && pays(out, left.columns()) &&
           multiply(stream, out, split(stream, left, Along::columns, of_left),
                    split(stream, right, Along::rows, of_right), write);

  const bool cut_left = left.dtype() == Dtype::f32;
  if (!pays(cut_left ? right.matrix : left.matrix, cut_left ? out.rows : out.columns)) return false;
  const Along along = cut_left ? Along::rows : Along::columns;
  const Matrix sums = room_for_parts(out.rows, out.columns, along, Dtype::f32, out.tensor.device());
  if (!multiply(stream, sums, cut_left ? split(stream, left, along, all) : left,
                cut_left ? right : split(stream, right, along, all), Write::replace))
    return false;
  sum_of_parts(stream, out, sums, along, write);
  return true;
}

}  // namespace hexad::kernels::cuda
