// Causal convolutions of columns. One thread computes one element, or one weight's gradient over all rows.
#include "framework/kernels/cuda/vectors.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr int threads = 256;

// Operands of one call. `before` and `first` may be null.
template <class D>
struct Filter {
  const D *x, *before, *weight;
  const int32_t* first;
  int64_t sequences, rows, width, taps, begin;
};

// True if tap j of row i of sequence b reads a row. Sets `value` to the element of column n of this row.
template <class D>
__device__ __forceinline__ bool reads(const Filter<D>& f, int64_t b, int64_t i, int64_t j, int64_t n, sum_t<D>& value) {
  const int64_t at = i - j;
  if (f.first && f.begin + at < f.first[b * f.rows + i]) return false;
  if (at >= 0)
    value = to<sum_t<D>>(f.x[(b * f.rows + at) * f.width + n]);
  else if (f.before)
    value = to<sum_t<D>>(f.before[((b + 1) * (f.taps - 1) + at) * f.width + n]);
  else
    return false;
  return true;
}

template <class D>
__device__ __forceinline__ sum_t<D> weight_of(const Filter<D>& f, int64_t n, int64_t j) {
  return to<sum_t<D>>(f.weight[n * f.taps + f.taps - 1 - j]);
}

template <class D>
__device__ sum_t<D> sum_of(const Filter<D>& f, int64_t b, int64_t i, int64_t n) {
  using A = sum_t<D>;
  A sum = 0, value = 0;
  for (int64_t j = 0; j < f.taps; ++j)
    if (reads(f, b, i, j, n, value)) sum += weight_of(f, n, j) * value;
  return sum;
}

// Returns the gradient of sum_of(f, b, i, n), the value before SiLU.
template <class D>
__device__ sum_t<D> gradient_of_sum(const Filter<D>& f, const D* dout, int64_t b, int64_t i, int64_t n) {
  using A = sum_t<D>;
  const A z = sum_of(f, b, i, n), s = 1 / (1 + exp(-z));
  return to<A>(dout[(b * f.rows + i) * f.width + n]) * s * (1 + z * (1 - s));
}

template <class D>
__global__ void __launch_bounds__(threads) forward_kernel(D* out, Filter<D> f) {
  using A = sum_t<D>;
  const int64_t e = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (e >= f.sequences * f.rows * f.width) return;
  const int64_t t = e / f.width;
  const A z = sum_of(f, t / f.rows, t % f.rows, e % f.width);
  out[e] = to<D>(z / (1 + exp(-z)));
}

// Computes dx, and also dbefore if it is not null. Each sequence has threads for rows + taps - 1 rows: first for the
// rows of dbefore, then for the rows of dx.
template <class D>
__global__ void __launch_bounds__(threads) input_kernel(D* dx, D* dbefore, const D* dout, Filter<D> f) {
  using A = sum_t<D>;
  const int64_t e = int64_t{blockIdx.x} * threads + threadIdx.x, all = f.rows + f.taps - 1;
  if (e >= f.sequences * all * f.width) return;
  const int64_t n = e % f.width, b = e / f.width / all, i = e / f.width % all - (f.taps - 1);
  if (i < 0 && !dbefore) return;
  A sum = 0;
  for (int64_t j = 0; j < f.taps; ++j) {
    const int64_t reader = i + j;
    if (reader < 0 || reader >= f.rows) continue;
    A value = 0;
    if (reads(f, b, reader, j, n, value)) sum += gradient_of_sum(f, dout, b, reader, n) * weight_of(f, n, j);
  }
  if (i >= 0)
    dx[(b * f.rows + i) * f.width + n] = to<D>(sum);
  else
    dbefore[((b + 1) * (f.taps - 1) + i) * f.width + n] = to<D>(sum);
}

template <class D>
__global__ void __launch_bounds__(threads) weight_kernel(sum_t<D>* dweight, const D* dout, Filter<D> f) {
  using A = sum_t<D>;
  const int64_t e = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (e >= f.width * f.taps) return;
  const int64_t n = e / f.taps, j = f.taps - 1 - e % f.taps;
  A sum = 0;
  for (int64_t b = 0; b < f.sequences; ++b)
    for (int64_t i = 0; i < f.rows; ++i) {
      A value = 0;
      if (reads(f, b, i, j, n, value)) sum += gradient_of_sum(f, dout, b, i, n) * value;
    }
  dweight[e] += sum;
}

void check(const Tensor& out, const CausalConvOperands& o, const SequenceRows& rows) {
  require(o.x.rank() == 2 && o.weight.rank() == 2 && o.weight.dim(0) == o.x.dim(1) && rows.sequences > 0 &&
              o.x.dim(0) % rows.sequences == 0,
          "[causal_conv] x is ", o.x.shape(), ", weight ", o.weight.shape(), ", with ", rows.sequences,
          " sequences; expected [T, N] and [N, W], at least one sequence, and T a multiple of the number of sequences");
  const int64_t tokens = o.x.dim(0), width = o.x.dim(1), taps = o.weight.dim(1);
  require_flat("causal_conv", "x", o.x, tokens * width);
  require_flat("causal_conv", "weight", o.weight, width * taps);
  require_flat("causal_conv", "out", out, tokens * width);
  if (o.before.defined()) require_flat("causal_conv", "before", o.before, rows.sequences * (taps - 1) * width);
  if (o.first.defined()) require_flat("causal_conv", "first", o.first, tokens);
}

template <class T>
Filter<device_t<T>> filter_of(const CausalConvOperands& o, const SequenceRows& rows) {
  return {.x = pointer<T>(o.x),
          .before = pointer<T>(o.before),
          .weight = pointer<T>(o.weight),
          .first = pointer<int32_t>(o.first),
          .sequences = rows.sequences,
          .rows = o.x.dim(0) / rows.sequences,
          .width = o.x.dim(1),
          .taps = o.weight.dim(1),
          .begin = rows.begin};
}

int64_t blocks_of_elements(int64_t elements) { return (elements + threads - 1) / threads; }

void forward(Stream& stream, const Tensor& out, const CausalConvOperands& operands, const SequenceRows& rows) {
  check(out, operands, rows);
  with_dtype<float, bf16, double>("causal_conv", out.dtype(), [&]<class T>() {
    using D = device_t<T>;
    const Filter<D> filter = filter_of<T>(operands, rows);
    launch("causal_conv", forward_kernel<D>, blocks_of_elements(out.numel()), threads, stream, pointer<T>(out), filter);
  });
}

void backward(Stream& stream, const CausalConvGradients& g, const Tensor& dout, const CausalConvOperands& operands,
              const SequenceRows& rows) {
  check(dout, operands, rows);
  require_flat("causal_conv", "dx", g.dx, operands.x.numel());
  require_flat("causal_conv", "dweight", g.dweight, operands.weight.numel());
  if (g.dbefore.defined())
    require_flat("causal_conv", "dbefore", g.dbefore,
                 rows.sequences * (operands.weight.dim(1) - 1) * operands.x.dim(1));
  if (dout.numel() == 0) return;
  with_dtype<float, bf16, double>("causal_conv", dout.dtype(), [&]<class T>() {
    using D = device_t<T>;
    const Filter<D> f = filter_of<T>(operands, rows);
    const int64_t inputs = f.sequences * (f.rows + f.taps - 1) * f.width;
    launch("causal_conv", input_kernel<D>, blocks_of_elements(inputs), threads, stream, pointer<T>(g.dx),
           pointer<T>(g.dbefore), pointer<T>(dout), f);
    launch("causal_conv", weight_kernel<D>, blocks_of_elements(f.width * f.taps), threads, stream,
           pointer<accumulator_t<T>>(g.dweight), pointer<T>(dout), f);
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const CausalConvKernels CausalConvKernels::of_cuda{.forward = cuda::forward, .backward = cuda::backward};

}  // namespace hexad::kernels
