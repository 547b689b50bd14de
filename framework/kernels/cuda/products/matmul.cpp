#include <cuda_runtime_api.h>

#include "framework/device/cuda/cuda_check.h"
#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/cuda/products/bf16_parts.h"
#include "framework/kernels/cuda/products/blas.h"
#include "framework/kernels/kernel_table.h"
#include "framework/tensor/device_access.h"

namespace hexad::kernels::cuda {

using namespace base;
using namespace tensor;
namespace {

using device::cuda::cuda_stream;

void check_size(std::string_view op, std::string_view name, const Matrix& m, int64_t rows, int64_t columns) {
  require(m.rows == rows && m.columns == columns, "[", op, "] ", name, " has ", m.rows, " rows and ", m.columns,
          " columns; expected ", rows, " rows and ", columns, " columns");
}

void zero(Stream& stream, const Matrix& m) {
  const size_t row = m.columns * size_of(m.tensor.dtype());
  const size_t pitch = m.stride * size_of(m.tensor.dtype());
  const size_t rows = m.rows;
  const auto queue = cuda_stream(stream).handle();
  device::cuda::check(pitch == row ? cudaMemsetAsync(device_raw(m.tensor), 0, row * rows, queue.get())
                                   : cudaMemset2DAsync(device_raw(m.tensor), pitch, 0, row, rows, queue.get()),
                      "matmul: zeros");
}

/// Returns the factor in `dtype`: the factor itself if it has this dtype, otherwise a converted copy.
Factor in_dtype(Stream& stream, std::string_view op, const Factor& factor, Dtype dtype) {
  const Tensor& t = factor.matrix.tensor;
  if (t.dtype() == dtype) return factor;
  const Tensor copy = Tensor::empty(t.shape(), dtype, t.device());
  PointwiseKernels::of_cuda.copy(stream, copy, t);
  return {matrix(op, "copy", copy), factor.transposed};
}

/// Multiplies in the accumulator dtype, with copies of all operands of another dtype, and rounds the result once. This
/// function is used if multiply() or multiply_in_parts() returns false, for example for bf16 rows at odd strides.
void multiply_in_acc(Stream& stream, std::string_view op, const Matrix& out, const Factor& left, const Factor& right,
                     Write write) {
  const Dtype acc = accumulator_dtype(left.dtype());
  const bool direct = out.tensor.dtype() == acc;
  const Tensor sum = direct ? out.tensor : Tensor::empty(out.tensor.shape(), acc, out.tensor.device());
  if (!direct && write == Write::add) PointwiseKernels::of_cuda.copy(stream, sum, out.tensor);
  const Matrix wide = matrix(op, "sum", sum);
  require(multiply(stream, wide, in_dtype(stream, op, left, acc), in_dtype(stream, op, right, acc), write), "[", op,
          "] cuBLASLt has no kernel for the ", acc, " product of [", wide.rows, ", ", left.columns(), "] and [",
          left.columns(), ", ", wide.columns, "]");
  if (!direct) PointwiseKernels::of_cuda.copy(stream, out.tensor, sum);
}

void product(Stream& stream, std::string_view op, const Matrix& out, const Factor& left, const Factor& right,
             Write write) {
  const Dtype in = left.dtype(), result = out.tensor.dtype();
  require((in == Dtype::f64) == (right.dtype() == Dtype::f64) && (in == Dtype::f64) == (result == Dtype::f64), "[", op,
          "] factors are ", in, " and ", right.dtype(), ", the result is ", result,
          "; expected f64 for all three or for none");
  if (out.rows == 0 || out.columns == 0) return;
  if (left.columns() == 0) {
    if (write == Write::replace) zero(stream, out);
    return;
  }
  const bool simple = right.dtype() == in && (result == in || result == accumulator_dtype(in));
  const auto way = simple ? multiply : multiply_in_parts;
  if (!way(stream, out, left, right, write)) multiply_in_acc(stream, op, out, left, right, write);
}

void forward(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& weight, Write write) {
  const std::string_view op = "matmul";
  const Matrix y = matrix(op, "out", out), in = matrix(op, "x", x), w = matrix(op, "w", weight);
  check_size(op, "w", w, y.columns, in.columns);
  check_size(op, "out", y, in.rows, w.rows);
  product(stream, op, y, {in}, {w, true}, write);
}

void input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& weight, Write write) {
  const std::string_view op = "matmul gradient";
  const Matrix out = matrix(op, "dx", dx), in = matrix(op, "dy", dy), w = matrix(op, "w", weight);
  check_size(op, "w", w, in.columns, out.columns);
  check_size(op, "dx", out, in.rows, w.columns);
  product(stream, op, out, {in}, {w}, write);
}

void weight_gradient(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, Write write) {
  const std::string_view op = "matmul weight gradient";
  const Matrix out = matrix(op, "dw", dw), left = matrix(op, "dy", dy), right = matrix(op, "x", x);
  check_size(op, "x", right, left.rows, right.columns);
  check_size(op, "dw", out, left.columns, right.columns);
  product(stream, op, out, {left, true}, {right}, write);
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const MatmulKernels MatmulKernels::of_cuda{
    .forward = cuda::forward, .input_gradient = cuda::input_gradient, .weight_gradient = cuda::weight_gradient};

}  // namespace hexad::kernels
