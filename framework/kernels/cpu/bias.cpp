#include "framework/kernels/cpu/checked_offsets.h"
#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/cpu/simd/norm_loops.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

void add_to_rows(const Tensor& x, const Tensor& bias) {
  with_dtype<float, bf16, double>("bias", x.dtype(), [&]<class T>() {
    const Rows<T> X(x);
    require_flat("bias", "bias", bias, X.width());
    const auto b = accumulators<accumulator_t<T>>(bias);
    const auto row = choose<T>(v3::norm_loops, v4::norm_loops).add_row;
    parallel_for(X.count(), row_grain(X.width()), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) row(X[t], b.data(), X.width());
    });
  });
}

void add_column_sums(const Tensor& dbias, const Tensor& dy) {
  with_dtype<float, bf16, double>("bias", dy.dtype(), [&]<class T>() {
    using A = accumulator_t<T>;
    const int64_t rows = Rows<T>(dy).count(), width = dy.dim(-1);
    require_flat("bias", "dbias", dbias, width);
    require_flat("bias", "dy", dy, rows * width);
    const auto sums = choose<T>(v3::norm_loops, v4::norm_loops).column_sums;
    parallel_columns(rows, width, [&, db = dbias.data<A>(), g = dy.data<T>()](int64_t c, int64_t n) {
      sums(db + c, g + c, rows, width, n);
    });
  });
}

void forward(Stream& stream, const Tensor& x, const Tensor& bias) {
  stream.run([=] { add_to_rows(x, bias); });
}

void backward(Stream& stream, const Tensor& dbias, const Tensor& dy) {
  stream.run([=] { add_column_sums(dbias, dy); });
}

void grouped_forward(Stream& stream, const Tensor& x, const Tensor& bias, const GroupOffsets& offsets) {
  stream.run([=, groups = CheckedOffsets("bias", offsets, bias.dim(0), x.dim(0))] {
    for_each_group(groups.offsets(), [&](int64_t e, int64_t begin, int64_t end) {
      add_to_rows(x.slice(0, begin, end), bias.slice(0, e, e + 1));
    });
  });
}

void grouped_backward(Stream& stream, const Tensor& dbias, const Tensor& dy, const GroupOffsets& offsets) {
  stream.run([=, groups = CheckedOffsets("bias", offsets, dbias.dim(0), dy.dim(0))] {
    for_each_group(groups.offsets(), [&](int64_t e, int64_t begin, int64_t end) {
      add_column_sums(dbias.slice(0, e, e + 1), dy.slice(0, begin, end));
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const BiasKernels BiasKernels::of_cpu{.forward = cpu::forward,
                                      .backward = cpu::backward,
                                      .grouped_forward = cpu::grouped_forward,
                                      .grouped_backward = cpu::grouped_backward};

}  // namespace hexad::kernels
