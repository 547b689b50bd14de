#include "framework/kernels/cuda/vectors.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

template <class I>
struct Shift {
  int64_t by;
  __device__ I operator()(I x) const { return x < 0 ? x : static_cast<I>(x + by); }
};

template <class I>
struct Within {
  int64_t first, count;
  __device__ I operator()(int32_t x) const {
    const int64_t at = x - first;
    return at >= 0 && at < count ? static_cast<I>(at) : I(-1);
  }
};

struct ShiftParts {
  const int64_t* parts;  // [2, count]: the end of each part; the number to add in each part
  int64_t count;
  __device__ int64_t operator()(int64_t x) const {
    if (x < 0) return x;
    int64_t first = 0, last = count - 1;  // binary search for the index of the part
    while (first < last) {
      const int64_t middle = (first + last) / 2;
      if (x < parts[middle])
        last = middle;
      else
        first = middle + 1;
    }
    return x + parts[count + first];
  }
};

constexpr int threads = 256;

__global__ void __launch_bounds__(threads) iota_parts_kernel(int64_t* out, int64_t count, ShiftParts shift) {
  const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i < count) out[i] = shift(i);
}

struct Take {
  const int64_t* x;
  __device__ int64_t operator()(int64_t index) const { return x[index]; }
};

__global__ void __launch_bounds__(threads) inverse_kernel(int64_t* out, const int64_t* x, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i < count && x[i] >= 0) out[x[i]] = i;
}

void shift(Stream& stream, const Tensor& out, const Tensor& x, int64_t by) {
  const int64_t n = x.numel();
  require_flat("shift", "x", x, n);
  require_flat("shift", "out", out, n);
  with_dtype<int32_t, int64_t>("shift", x.dtype(), [&]<class I>() {
    map("shift", stream, Shift<I>{by}, one_row(pointer<I>(out), n), one_row(pointer<I>(x), n));
  });
}

void within(Stream& stream, const Tensor& out, const Tensor& x, int64_t first, int64_t count) {
  const int64_t n = x.numel();
  require_flat("within", "x", x, n);
  require_flat("within", "out", out, n);
  with_dtype<int32_t, int64_t>("within", out.dtype(), [&]<class I>() {
    map("within", stream, Within<I>{first, count}, one_row(pointer<I>(out), n), one_row(pointer<int32_t>(x), n));
  });
}

void shift_parts(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& parts) {
  const int64_t n = x.numel();
  require_flat("shift_parts", "x", x, n);
  require_flat("shift_parts", "out", out, n);
  require_flat("shift_parts", "parts", parts, 2 * parts.dim(1));
  map("shift_parts", stream, ShiftParts{pointer<int64_t>(parts), parts.dim(1)}, one_row(pointer<int64_t>(out), n),
      one_row(pointer<int64_t>(x), n));
}

void iota_parts(Stream& stream, const Tensor& out, const Tensor& parts) {
  const int64_t n = out.numel();
  require_flat("iota_parts", "out", out, n);
  require_flat("iota_parts", "parts", parts, 2 * parts.dim(1));
  launch("iota_parts", iota_parts_kernel, blocks_of(n, threads), threads, stream, pointer<int64_t>(out), n,
         ShiftParts{pointer<int64_t>(parts), parts.dim(1)});
}

void take(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& index) {
  const int64_t n = index.numel();
  require_flat("take", "x", x, x.numel());
  require_flat("take", "out", out, n);
  require_flat("take", "index", index, n);
  map("take", stream, Take{pointer<int64_t>(x)}, one_row(pointer<int64_t>(out), n),
      one_row(pointer<int64_t>(index), n));
}

void inverse(Stream& stream, const Tensor& out, const Tensor& x) {
  const int64_t n = x.numel();
  require_flat("inverse", "x", x, n);
  require_flat("inverse", "out", out, out.numel());
  launch("inverse", inverse_kernel, blocks_of(n, threads), threads, stream, pointer<int64_t>(out), pointer<int64_t>(x),
         n);
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const IndexKernels IndexKernels::of_cuda{.shift = cuda::shift,
                                         .within = cuda::within,
                                         .shift_parts = cuda::shift_parts,
                                         .iota_parts = cuda::iota_parts,
                                         .take = cuda::take,
                                         .inverse = cuda::inverse};

}  // namespace hexad::kernels
