#include "framework/kernels/cpu/products/products.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "framework/kernels/cpu/checked_offsets.h"
#include "framework/kernels/cpu/products/add_rounded.h"
#include "framework/kernels/cpu/products/gemm.h"
#include "framework/kernels/cpu/simd/isa.h"
#include "framework/kernels/operand_checks.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

/// A tensor as a matrix. Leading dimensions are flattened; rows are `stride` elements apart.
struct Matrix {
  std::string_view name;  // string literal, for messages
  Tensor tensor;          // shares the ownership of the memory
  int64_t rows, columns, stride;

  Operand operand(int64_t first_row = 0) const { return {at(first_row), tensor.dtype(), stride, 1}; }
  Operand transposed(int64_t first_row = 0) const { return {at(first_row), tensor.dtype(), 1, stride}; }
  Result result(int64_t first_row = 0) const { return {at(first_row), tensor.dtype(), stride}; }
  std::byte* at(int64_t row) const {
    return static_cast<std::byte*>(tensor.raw()) + row * stride * size_of(tensor.dtype());
  }
};

Matrix matrix(std::string_view op, std::string_view name, const Tensor& t) {
  const MatrixShape shape = matrix_shape(op, name, t);
  return {name, t, shape.rows, shape.columns, shape.stride};
}

void check(std::string_view op, const Matrix& m, int64_t rows, int64_t columns) {
  require(m.rows == rows && m.columns == columns, "[", op, "] ", m.name, " has ", m.rows, " rows and ", m.columns,
          " columns; expected ", rows, " rows and ", columns, " columns");
}

Dtype dtype(const Matrix& m) { return m.tensor.dtype(); }

/// Throws std::logic_error unless the dtype of `m` is one of `legal`, the dtypes that the dtype of `other` permits.
void check_dtype(std::string_view op, const Matrix& m, const Matrix& other, std::initializer_list<Dtype> legal) {
  if (std::ranges::find(legal, dtype(m)) != legal.end()) return;
  std::string list;
  for (auto type = legal.begin(); type != legal.end(); ++type)
    if (std::find(legal.begin(), type, *type) == type) list += cat(list.empty() ? "" : " or ", *type);
  fail_invariant(
      cat("[", op, "] ", m.name, " is ", dtype(m), ", but ", other.name, " is ", dtype(other), "; expected ", list));
}

/// Throws std::logic_error unless `m` has the dtype of the operand `other` or its accumulator dtype.
void check_wide(std::string_view op, const Matrix& m, const Matrix& other) {
  check_dtype(op, m, other, {dtype(other), accumulator_dtype(dtype(other))});
}

/// Throws std::logic_error unless all matrices have the same dtype.
void check_same(std::string_view op, std::initializer_list<const Matrix*> all) {
  const Matrix& first = **all.begin();
  for (const Matrix* m : all) check_dtype(op, *m, first, {dtype(first)});
}

/// Returns the unit that multiplies bf16 operands on this machine.
Unit bf16_unit() {
  if (machine_has_amx()) return Unit::matrix;
  return machine_prefers_dot() ? Unit::dot : Unit::vector;
}

/// Computes a list of products, whose operands have the dtypes of `a` and `b`. The threads share the list. Products
/// that are added to bf16 results are computed sequentially. A product without terms, such as the weight gradient of an
/// expert without rows, does not change the result to which it is added.
void multiply(const Matrix& a, const Matrix& b, const std::vector<GemmTile>& products) {
  const Unit unit = dtype(a) == Dtype::bf16 && dtype(b) == Dtype::bf16 ? bf16_unit() : Unit::vector;
  if (products.empty()) return;
  if (const GemmTile& first = products.front(); !first.add || first.c.dtype != Dtype::bf16) return gemm(products, unit);
  for (const GemmTile& p : products)
    if (p.m > 0 && p.k > 0) add_rounded(p, [&](const GemmTile& part) { gemm({&part, 1}, unit); });
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
  return cat("f32, f64: ", own, "; bf16: the same kernels after widening to f32");
}

void matmul_forward(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& weight, Write write) {
  const std::string_view op = "matmul";
  const Matrix y = matrix(op, "out", out), in = matrix(op, "x", x), w = matrix(op, "w", weight);
  check(op, w, y.columns, in.columns);
  check(op, y, in.rows, w.rows);
  check_wide(op, w, in);
  check_wide(op, y, w);
  stream.run([=] { by_weights(y, in, w, Side::transposed, write, {0, in.rows}); });
}

void matmul_input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& weight, Write write) {
  const std::string_view op = "matmul gradient";
  const Matrix out = matrix(op, "dx", dx), in = matrix(op, "dy", dy), w = matrix(op, "w", weight);
  check(op, w, in.columns, out.columns);
  check(op, out, in.rows, w.columns);
  check_same(op, {&in, &w});
  if (dtype(w) == Dtype::f32)
    check_dtype(op, out, w, {Dtype::bf16, Dtype::f32});
  else
    check_wide(op, out, w);
  stream.run([=] { by_weights(out, in, w, Side::plain, write, {0, in.rows}); });
}

void matmul_weight_gradient(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, Write write) {
  const std::string_view op = "matmul weight gradient";
  const Matrix out = matrix(op, "dw", dw), left = matrix(op, "dy", dy), right = matrix(op, "x", x);
  check(op, right, left.rows, right.columns);
  check(op, out, left.columns, right.columns);
  check_wide(op, left, right);
  check_wide(op, out, right);
  stream.run([=] { by_rows(out, left, right, write, {0, left.rows}); });
}

void grouped_matmul_forward(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& weight,
                            const GroupOffsets& offsets, Write write) {
  const std::string_view op = "grouped matmul";
  const Matrix y = matrix(op, "out", out), in = matrix(op, "x", x), w = matrix(op, "w", weight);
  const int64_t experts = weight.dim(0);
  check(op, w, experts * y.columns, in.columns);
  check(op, y, in.rows, y.columns);
  check_same(op, {&in, &w, &y});
  stream.run([=, groups = CheckedOffsets(op, offsets, experts, in.rows)] {
    by_weights(y, in, w, Side::transposed, write, groups.offsets());
  });
}

void grouped_matmul_input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& weight,
                                   const GroupOffsets& offsets, Write write) {
  const std::string_view op = "grouped matmul gradient";
  const Matrix out = matrix(op, "dx", dx), in = matrix(op, "dy", dy), w = matrix(op, "w", weight);
  const int64_t experts = weight.dim(0);
  check(op, w, experts * in.columns, out.columns);
  check(op, out, in.rows, out.columns);
  check_same(op, {&in, &w, &out});
  stream.run([=, groups = CheckedOffsets(op, offsets, experts, in.rows)] {
    by_weights(out, in, w, Side::plain, write, groups.offsets());
  });
}

void grouped_matmul_weight_gradient(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x,
                                    const GroupOffsets& offsets, Write write) {
  const std::string_view op = "grouped matmul weight gradient";
  const Matrix out = matrix(op, "dw", dw), left = matrix(op, "dy", dy), right = matrix(op, "x", x);
  const int64_t experts = dw.dim(0);
  check(op, right, left.rows, right.columns);
  check(op, out, experts * left.columns, right.columns);
  check_same(op, {&left, &right});
  check_wide(op, out, right);
  stream.run([=, groups = CheckedOffsets(op, offsets, experts, left.rows)] {
    by_rows(out, left, right, write, groups.offsets());
  });
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
