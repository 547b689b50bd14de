#include "framework/kernels/cpu/products/products.h"

#include <algorithm>
#include <vector>

#include "framework/kernels/cpu/products/add_rounded.h"
#include "framework/kernels/cpu/products/gemm.h"
#include "framework/kernels/cpu/row_groups.h"
#include "framework/kernels/cpu/simd/isa.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

/// A tensor as a matrix. Leading dimensions are flattened; rows are `stride` elements apart.
struct Matrix {
  Tensor tensor;  // shares the ownership of the memory
  int64_t rows, columns, stride;

  Operand operand(int64_t first_row = 0) const { return {at(first_row), tensor.dtype(), stride, 1}; }
  Operand transposed(int64_t first_row = 0) const { return {at(first_row), tensor.dtype(), 1, stride}; }
  Result result(int64_t first_row = 0) const { return {at(first_row), tensor.dtype(), stride}; }
  std::byte* at(int64_t row) const {
    return static_cast<std::byte*>(tensor.raw()) + row * stride * size_of(tensor.dtype());
  }
};

Matrix matrix(std::string_view op, std::string_view name, const Tensor& t) {
  const int inner = t.rank() - 1;
  require(inner >= 1 && is_floating(t.dtype()), "[", op, "] ", name, " is ", t.dtype(), " ", t.shape(),
          "; expected floating rows");
  const int64_t columns = t.dim(inner);
  int64_t rows = 1, stride = columns;
  for (int d = inner - 1; d >= 0; --d) {
    if (t.dim(d) == 1) continue;
    if (rows == 1) stride = t.strides()[d];
    require(t.strides()[d] == rows * stride, "[", op, "] ", name, " of shape ", t.shape(), " has strides ", t.strides(),
            "; expected equally spaced rows");
    rows *= t.dim(d);
  }
  require((columns <= 1 || t.strides()[inner] == 1) && (rows <= 1 || stride >= columns), "[", op, "] ", name,
          " of shape ", t.shape(), " has strides ", t.strides(), "; expected contiguous rows");
  return {t, rows, columns, stride};
}

void check(std::string_view op, std::string_view name, const Matrix& m, int64_t rows, int64_t columns) {
  require(m.rows == rows && m.columns == columns, "[", op, "] ", name, " has ", m.rows, " rows of ", m.columns,
          "; expected ", rows, " of ", columns);
}

Dtype dtype(const Matrix& m) { return m.tensor.dtype(); }

/// Throws std::logic_error unless `out` has the dtype `in` of the operands or its accumulator dtype.
void check_result(std::string_view op, const Matrix& out, Dtype in) {
  const Dtype accumulator = accumulator_dtype(in);
  require(dtype(out) == in || dtype(out) == accumulator, "[", op, "] the result of ", in, " operands is ", dtype(out),
          "; expected ", accumulator);
}

/// Throws std::logic_error unless both operands have the same dtype, or `wide` has the accumulator dtype of `other`.
void check_operands(std::string_view op, const Matrix& wide, const Matrix& other) {
  require(dtype(wide) == dtype(other) || dtype(wide) == accumulator_dtype(dtype(other)), "[", op, "] operands are ",
          dtype(other), " and ", dtype(wide), "; expected one dtype");
}

/// Throws std::logic_error unless all matrices have the same dtype.
void check_same(std::string_view op, std::initializer_list<const Matrix*> all) {
  const Matrix& first = **all.begin();
  for (const Matrix* m : all)
    require(dtype(*m) == dtype(first), "[", op, "] operands are ", dtype(first), " and ", dtype(*m),
            "; expected one dtype");
}

/// Returns the unit that multiplies bf16 operands on this machine.
Unit bf16_unit() {
  if (machine_has_amx()) return Unit::matrix;
  return machine_prefers_dot() ? Unit::dot : Unit::vector;
}

/// Computes a list of products, whose operands have the dtypes of a and b. The threads share the list. Products that
/// are added to bf16 results are computed one after the other.
void multiply(const Matrix& a, const Matrix& b, const std::vector<GemmTile>& products) {
  const Unit unit = dtype(a) == Dtype::bf16 && dtype(b) == Dtype::bf16 ? bf16_unit() : Unit::vector;
  if (products.empty()) return;
  if (const GemmTile& first = products.front(); !first.add || first.c.dtype != Dtype::bf16) return gemm(products, unit);
  for (const GemmTile& p : products)
    if (p.m > 0) add_rounded(p, [&](const GemmTile& part) { gemm({&part, 1}, unit); });
}

/// Form in which a product uses a weight: transposed in y = x w^T, plain in dx = dy w.
enum class Side : uint8_t { plain, transposed };

/// Multiplies the rows of each expert by its weight. Expert e has the rows [offsets[e], offsets[e + 1]) of `in`. The
/// products are written to the same rows of `out`, or added to them.
void by_weights(const Matrix& out, const Matrix& in, const Matrix& w, Side side, Write write,
                const std::vector<int64_t>& offsets) {
  const auto experts = static_cast<int64_t>(offsets.size()) - 1;
  const int64_t height = w.rows / std::max<int64_t>(experts, 1);
  std::vector<GemmTile> products;
  for (int64_t e = 0; e < experts; ++e) {
    const size_t i = e;
    products.push_back({.m = offsets[i + 1] - offsets[i],
                        .n = out.columns,
                        .k = in.columns,
                        .a = in.operand(offsets[i]),
                        .b = side == Side::transposed ? w.transposed(e * height) : w.operand(e * height),
                        .c = out.result(offsets[i]),
                        .add = write == Write::add});
  }
  multiply(in, w, products);
}

/// Computes dw = dy^T x for each expert, over the rows of the expert, or adds the product to dw.
void by_rows(const Matrix& dw, const Matrix& dy, const Matrix& x, Write write, const std::vector<int64_t>& offsets) {
  std::vector<GemmTile> products;
  for (size_t e = 0; e + 1 < offsets.size(); ++e)
    products.push_back({.m = dy.columns,
                        .n = x.columns,
                        .k = offsets[e + 1] - offsets[e],
                        .a = dy.transposed(offsets[e]),
                        .b = x.operand(offsets[e]),
                        .c = dw.result(static_cast<int64_t>(e) * dy.columns),
                        .add = write == Write::add});
  multiply(dy, x, products);
}

}  // namespace

std::string products_description() {
  const std::string own = cat("own kernels (", name_of(machine_isa()), ")");
  switch (bf16_unit()) {
    case Unit::matrix:
      return cat("f32, f64: ", own, "; bf16: own kernels (AMX)");
    case Unit::dot:
      return cat("f32, f64: ", own, "; bf16: own kernels (AVX-512 BF16)");
    case Unit::vector:
      break;
  }
  return cat("f32, f64: ", own, "; bf16: the same after widening to f32");
}

void matmul_forward(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& weight, Write write) {
  const std::string_view op = "matmul";
  const Matrix y = matrix(op, "out", out), in = matrix(op, "x", x), w = matrix(op, "w", weight);
  check(op, "w", w, y.columns, in.columns);
  check(op, "out", y, in.rows, w.rows);
  check_operands(op, w, in);
  check_result(op, y, dtype(w));
  stream.run([=] { by_weights(y, in, w, Side::transposed, write, {0, in.rows}); });
}

void matmul_input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& weight, Write write) {
  const std::string_view op = "matmul gradient";
  const Matrix out = matrix(op, "dx", dx), in = matrix(op, "dy", dy), w = matrix(op, "w", weight);
  check(op, "w", w, in.columns, out.columns);
  check(op, "dx", out, in.rows, w.columns);
  check_same(op, {&in, &w});
  if (accumulator_dtype(dtype(out)) != dtype(w)) check_result(op, out, dtype(w));
  stream.run([=] { by_weights(out, in, w, Side::plain, write, {0, in.rows}); });
}

void matmul_weight_gradient(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, Write write) {
  const std::string_view op = "matmul weight gradient";
  const Matrix out = matrix(op, "dw", dw), left = matrix(op, "dy", dy), right = matrix(op, "x", x);
  check(op, "x", right, left.rows, right.columns);
  check(op, "dw", out, left.columns, right.columns);
  check_operands(op, left, right);
  check_result(op, out, dtype(right));
  stream.run([=] { by_rows(out, left, right, write, {0, left.rows}); });
}

void grouped_matmul_forward(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& weight,
                            const GroupOffsets& offsets, Write write) {
  const std::string_view op = "grouped matmul";
  const Matrix y = matrix(op, "out", out), in = matrix(op, "x", x), w = matrix(op, "w", weight);
  const int64_t experts = weight.dim(0);
  check(op, "w", w, experts * y.columns, in.columns);
  check(op, "out", y, in.rows, y.columns);
  check_same(op, {&in, &w, &y});
  stream.run([=, groups = Groups(op, offsets, experts, in.rows)] {
    by_weights(y, in, w, Side::transposed, write, groups.offsets());
  });
}

void grouped_matmul_input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& weight,
                                   const GroupOffsets& offsets, Write write) {
  const std::string_view op = "grouped matmul gradient";
  const Matrix out = matrix(op, "dx", dx), in = matrix(op, "dy", dy), w = matrix(op, "w", weight);
  const int64_t experts = weight.dim(0);
  check(op, "w", w, experts * in.columns, out.columns);
  check(op, "dx", out, in.rows, out.columns);
  check_same(op, {&in, &w, &out});
  stream.run([=, groups = Groups(op, offsets, experts, in.rows)] {
    by_weights(out, in, w, Side::plain, write, groups.offsets());
  });
}

void grouped_matmul_weight_gradient(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x,
                                    const GroupOffsets& offsets, Write write) {
  const std::string_view op = "grouped matmul weight gradient";
  const Matrix out = matrix(op, "dw", dw), left = matrix(op, "dy", dy), right = matrix(op, "x", x);
  const int64_t experts = dw.dim(0);
  check(op, "x", right, left.rows, right.columns);
  check(op, "dw", out, experts * left.columns, right.columns);
  check_same(op, {&left, &right});
  check_result(op, out, dtype(right));
  stream.run(
      [=, groups = Groups(op, offsets, experts, left.rows)] { by_rows(out, left, right, write, groups.offsets()); });
}

}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const MatmulKernels MatmulKernels::of_cpu{.forward = cpu::matmul_forward,
                                          .input_gradient = cpu::matmul_input_gradient,
                                          .weight_gradient = cpu::matmul_weight_gradient};
const GroupedMatmulKernels GroupedMatmulKernels::of_cpu{.forward = cpu::grouped_matmul_forward,
                                                        .input_gradient = cpu::grouped_matmul_input_gradient,
                                                        .weight_gradient = cpu::grouped_matmul_weight_gradient};

}  // namespace hexad::kernels
