// Grouped products that tensor cores do not support, for any width and any address. A thread block computes 64 x 64
// elements and loads its factors into shared memory.
#include "framework/kernels/cuda/launch.cuh"
#include "framework/kernels/cuda/products/grouped_passes.h"
#include "framework/kernels/cuda/products/tile_order.h"

namespace hexad::kernels::cuda::simple {

using namespace base;
namespace {

constexpr int tile = 64, depth = 16, threads = 256;
// A block has `side` x `side` threads. Each thread computes `each` x `each` elements of a tile.
constexpr int side = 16, each = tile / side;

/// Layout of the terms in a line (a row or column) of a factor: adjacent, or a stride apart.
enum class Terms : uint8_t { adjacent, strided };

/// Lines of a factor from `data` on: rows of the left factor, or columns of the right factor.
template <class D, Terms terms>
struct Lines {
  const D* data;
  int64_t stride;  // distance between lines if the terms of a line are adjacent, otherwise between terms
  int64_t lines;

  __device__ D at(int64_t line, int64_t term) const {
    return terms == Terms::adjacent ? data[line * stride + term] : data[term * stride + line];
  }
};

template <class A>
struct Scratch {
  A left[depth][tile + 1], right[depth][tile + 1];
};

/// Loads terms [first, first + depth) of the lines of a tile. Elements outside the factor are not read; zeros are
/// written in their place. Adjacent threads read adjacent elements.
template <class A, class D, Terms terms>
__device__ void load(A (&tiles)[depth][tile + 1], const Lines<D, terms>& from, int64_t first, int64_t count) {
  for (int i = static_cast<int>(threadIdx.x); i < tile * depth; i += threads) {
    const int line = terms == Terms::adjacent ? i / depth : i % tile;
    const int term = terms == Terms::adjacent ? i % depth : i / tile;
    const bool there = line < from.lines && first + term < count;
    tiles[term][line] = there ? to<A>(from.at(line, first + term)) : A(0);
  }
}

/// Computes a tile of the product, for the lines that exist. Writes the sum over `count` terms, in order, to each
/// out[i, j]. If `add` is true, adds the sum to out[i, j] instead. All threads must call this function.
template <class Out, class D, Terms l, Terms r>
__device__ void multiply_tile(Out* out, int64_t out_stride, const Lines<D, l>& left, const Lines<D, r>& right,
                              int64_t count, bool add, Scratch<sum_t<D>>& scratch) {
  using A = sum_t<D>;
  const int row = static_cast<int>(threadIdx.x) / side, column = static_cast<int>(threadIdx.x) % side;
  A sums[each][each] = {};
  for (int64_t first = 0; first < count; first += depth) {
    load(scratch.left, left, first, count);
    load(scratch.right, right, first, count);
    __syncthreads();
#pragma unroll
    for (int term = 0; term < depth; ++term) {
      A a[each], b[each];
#pragma unroll
      for (int i = 0; i < each; ++i) {
        a[i] = scratch.left[term][row + i * side];
        b[i] = scratch.right[term][column + i * side];
      }
#pragma unroll
      for (int i = 0; i < each; ++i)
#pragma unroll
        for (int j = 0; j < each; ++j) sums[i][j] += a[i] * b[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < each; ++i)
#pragma unroll
    for (int j = 0; j < each; ++j) {
      const int at_row = row + i * side, at_column = column + j * side;
      if (at_row >= left.lines || at_column >= right.lines) continue;
      Out* result = out + at_row * out_stride + at_column;
      *result = to<Out>(add ? to<A>(*result) + sums[i][j] : sums[i][j]);
    }
}

/// Returns the first group that ends after `row`; `groups` if no group ends after `row`.
__device__ int64_t group_at(const int64_t* offsets, int64_t groups, int64_t row) {
  int64_t low = 0, high = groups;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (offsets[middle + 1] > row) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

struct RowProduct {
  const int64_t* offsets;
  int64_t groups, rows, terms, columns;
  bool add;
};

/// Computes out[rows, columns]: each row of x[rows, terms] times the matrix of the row's group in w. Adds these
/// products to `out` if `p.add` is true. A matrix is [columns, terms] if `w_terms` is adjacent, otherwise [terms,
/// columns]. A block of threads computes 64 x 64 elements, which may belong to several groups. It iterates over these
/// groups, so the host does not need the groups' numbers of rows.
template <class D, Terms w_terms>
__global__ void __launch_bounds__(threads) rows_by_weights(D* out, const D* x, const D* w, RowProduct p) {
  __shared__ Scratch<sum_t<D>> scratch;
  const int64_t tiles = (p.columns + tile - 1) / tile;
  const int64_t first_row = blockIdx.x / tiles * tile, column = blockIdx.x % tiles * tile;
  const int64_t last_row = min(first_row + tile, p.rows);
  for (int64_t e = group_at(p.offsets, p.groups, first_row); e < p.groups && p.offsets[e] < last_row; ++e) {
    const int64_t begin = max(p.offsets[e], first_row), end = min(p.offsets[e + 1], last_row);
    if (begin >= end) continue;
    const D* weight = w + e * p.columns * p.terms;
    const bool adjacent = w_terms == Terms::adjacent;
    const Lines<D, Terms::adjacent> left{x + begin * p.terms, p.terms, end - begin};
    const Lines<D, w_terms> right{adjacent ? weight + column * p.terms : weight + column,
                                  adjacent ? p.terms : p.columns, p.columns - column};
    multiply_tile(out + begin * p.columns + column, p.columns, left, right, p.terms, p.add, scratch);
  }
}

__global__ void __launch_bounds__(threads) order_groups(int64_t* order, const int64_t* offsets, int64_t groups) {
  const int64_t e = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (e < groups) order_group(order, e, offsets, groups);
}

/// Computes dw[e, features, width] = dy^T x over the rows of group e, or adds this product to dw if `add` is true. A
/// block computes 64 x 64 elements of one group: the tile whose ticket (tile_order.h) is the number of the block.
template <class D, class Out>
__global__ void __launch_bounds__(threads)
    columns_by_rows(Out* dw, const D* dy, const D* x, const int64_t* offsets, WeightTiles tiles, int64_t features,
                    int64_t width, bool add) {
  __shared__ Scratch<sum_t<D>> scratch;
  const WeightTile at = tiles.tile(blockIdx.x);
  const int64_t e = at.group, row = at.row * tile, column = at.column * tile;
  const int64_t begin = offsets[e], count = offsets[e + 1] - begin;
  const Lines<D, Terms::strided> left{dy + begin * features + row, features, features - row};
  const Lines<D, Terms::strided> right{x + begin * width + column, width, width - column};
  multiply_tile(dw + (e * features + row) * width + column, width, left, right, count, add, scratch);
}

int64_t tiles_of(int64_t n) { return blocks_of(n, tile); }

template <Terms w_terms>
void by_weights(std::string_view op, Stream& stream, const Tensor& out, const Tensor& x, const Tensor& w,
                const Tensor& offsets, Write write) {
  const RowProduct p{.offsets = device_data<int64_t>(offsets),
                     .groups = offsets.numel() - 1,
                     .rows = x.dim(0),
                     .terms = x.dim(1),
                     .columns = out.dim(1),
                     .add = write == Write::add};
  with_dtype<float, bf16, double>(op, x.dtype(), [&]<class T>() {
    launch(op, rows_by_weights<device_t<T>, w_terms>, tiles_of(p.rows) * tiles_of(p.columns), threads, stream,
           pointer<T>(out), pointer<T>(x), pointer<T>(w), p);
  });
}

template <class T, class Out>
void by_rows(std::string_view op, Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x,
             const Tensor& offsets, Write write) {
  const int64_t features = dy.dim(1), width = x.dim(1);
  const int64_t groups = offsets.numel() - 1;
  const Tensor order = Tensor::empty({groups}, Dtype::i64, dw.device());
  launch(op, order_groups, blocks_of(groups, threads), threads, stream, pointer<int64_t>(order),
         device_data<int64_t>(offsets), groups);
  const WeightTiles tiles{pointer<int64_t>(order), groups, tiles_of(features), tiles_of(width)};
  launch(op, columns_by_rows<device_t<T>, device_t<Out>>, tiles.count(), threads, stream, pointer<Out>(dw),
         pointer<T>(dy), pointer<T>(x), device_data<int64_t>(offsets), tiles, features, width, write == Write::add);
}

}  // namespace

void forward(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& w, const Tensor& offsets, Write write) {
  by_weights<Terms::adjacent>("grouped matmul", stream, out, x, w, offsets, write);
}

void input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w, const Tensor& offsets,
                    Write write) {
  by_weights<Terms::strided>("grouped matmul gradient", stream, dx, dy, w, offsets, write);
}

void weight_gradient(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, const Tensor& offsets,
                     Write write) {
  const std::string_view op = "grouped matmul weight gradient";
  with_dtype<float, bf16, double>(op, x.dtype(), [&]<class T>() {
    if (dw.dtype() == dtype_of<T>) {
      by_rows<T, T>(op, stream, dw, dy, x, offsets, write);
    } else {
      by_rows<T, accumulator_t<T>>(op, stream, dw, dy, x, offsets, write);
    }
  });
}

}  // namespace hexad::kernels::cuda::simple
