#include "framework/kernels/cpu/products/products.h"

#include <algorithm>
#include <vector>

#include "framework/kernels/cpu/products/gemm.h"
#include "framework/kernels/cpu/products/onednn.h"
#include "framework/kernels/cpu/simd/isa.h"

namespace hexad::kernels::cpu {
namespace {

/// A tensor as a matrix: leading dimensions flattened, rows `stride` elements apart.
struct Matrix {
  Tensor tensor;  // keeps the memory
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

void check_dtypes(std::string_view op, const Matrix& out, const Matrix& a, const Matrix& b, bool out_is_accumulator) {
  const Dtype in = a.tensor.dtype(), result = out.tensor.dtype(), accumulator = accumulator_dtype(in);
  require(b.tensor.dtype() == in, "[", op, "] operands are ", in, " and ", b.tensor.dtype(), "; expected one dtype");
  require(result == accumulator || (!out_is_accumulator && result == in), "[", op, "] the result of ", in,
          " operands is ", result, "; expected ", accumulator);
}

std::vector<int64_t> checked(std::string_view op, std::span<const int64_t> offsets, int64_t experts, int64_t rows) {
  require(static_cast<int64_t>(offsets.size()) == experts + 1, "[", op, "] ", offsets.size(), " offsets for ", experts,
          " experts; expected ", experts + 1);
  require(std::is_sorted(offsets.begin(), offsets.end()) && offsets.front() >= 0 && offsets.back() <= rows, "[", op,
          "] offsets are not rising within 0 .. ", rows);
  return {offsets.begin(), offsets.end()};
}

Unit unit_of(Dtype dtype) { return dtype == Dtype::bf16 && machine_has_amx() ? Unit::matrix : Unit::vector; }

/// AMX is faster through our own loops: they compile nothing per shape and keep no packed weights.
bool goes_to_onednn(Dtype dtype) {
  static const bool preferred = !machine_has_amx() && onednn::available() && onednn::preferred();
  return dtype == Dtype::bf16 && preferred;
}

/// y = x w^T uses a weight transposed, dx = dy w as it is.
enum class Side : uint8_t { plain, transposed };

/// Where packed copies of matrices are, and the number of the first of them there.
struct Packs {
  PackCache* cache;
  int64_t first;

  explicit Packs(const Weight& w) : cache(w.packs), first(w.first) {}
  uint64_t key(int64_t matrix, Side side) const {
    return static_cast<uint64_t>(first + matrix) * 2 + static_cast<uint64_t>(side);
  }
};

/// out rows [offsets[e], offsets[e + 1]) = the same rows of `in` times expert e's weight.
void by_weights(const Matrix& out, const Matrix& in, const Matrix& w, const Packs& packs, Side side,
                const std::vector<int64_t>& offsets) {
  const auto experts = static_cast<int64_t>(offsets.size()) - 1;
  const int64_t height = w.rows / std::max<int64_t>(experts, 1);
  const bool library = goes_to_onednn(in.tensor.dtype()) && in.columns > 0;
  std::vector<GemmTile> products;
  for (int64_t e = 0; e < experts; ++e) {
    const auto i = static_cast<size_t>(e);
    const int64_t begin = offsets[i], rows = offsets[i + 1] - begin;
    if (rows == 0) continue;
    const GemmTile p{.m = rows,
                     .n = out.columns,
                     .k = in.columns,
                     .a = in.operand(begin),
                     .b = side == Side::transposed ? w.transposed(e * height) : w.operand(e * height),
                     .c = out.result(begin),
                     .add = false};
    if (!library) {
      products.push_back(p);
      continue;
    }
    // Every number of rows is a shape of its own to oneDNN. Rounding it up writes into the next experts' rows, which
    // are computed after this.
    GemmTile rounded = p;
    rounded.m = std::min((rows + 15) / 16 * 16, offsets.back() - begin);
    onednn::multiply(rounded, packs.cache, packs.key(e, side));
  }
  gemm(products, unit_of(in.tensor.dtype()));
}

/// dw of expert e = or += dy^T x over its rows.
void by_rows(const Matrix& dw, const Matrix& dy, const Matrix& x, Write write, const std::vector<int64_t>& offsets) {
  const bool library = goes_to_onednn(x.tensor.dtype());
  std::vector<GemmTile> products;
  for (size_t e = 0; e + 1 < offsets.size(); ++e) {
    const GemmTile p{.m = dy.columns,
                     .n = x.columns,
                     .k = offsets[e + 1] - offsets[e],
                     .a = dy.transposed(offsets[e]),
                     .b = x.operand(offsets[e]),
                     .c = dw.result(static_cast<int64_t>(e) * dy.columns),
                     .add = write == Write::add};
    if (library && p.k > 0)
      onednn::multiply(p, nullptr, 0);
    else
      products.push_back(p);
  }
  gemm(products, unit_of(x.tensor.dtype()));
}

}  // namespace

bool bf16_products_are_native() { return machine_has_amx() || goes_to_onednn(Dtype::bf16); }

std::string products_description() {
  const std::string own = cat("own kernels (", name_of(machine_isa()), ")");
  if (machine_has_amx()) return cat("f32, f64: ", own, "; bf16: own kernels (AMX)");
  if (goes_to_onednn(Dtype::bf16)) return cat("f32, f64: ", own, "; bf16: ", onednn::description());
  return cat("f32, f64: ", own, "; bf16: the same after widening to f32, without AMX; ", onednn::description());
}

void matmul_forward(Stream& stream, const Tensor& out, const Tensor& x, const Weight& weight) {
  const Matrix y = matrix("matmul", "out", out), in = matrix("matmul", "x", x), w = matrix("matmul", "w", weight.data);
  check("matmul", "w", w, y.columns, in.columns);
  check("matmul", "out", y, in.rows, w.rows);
  check_dtypes("matmul", y, in, w, false);
  stream.run([=, packs = Packs(weight)] { by_weights(y, in, w, packs, Side::transposed, {0, in.rows}); });
}

void matmul_input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Weight& weight) {
  const Matrix out = matrix("matmul gradient", "dx", dx), in = matrix("matmul gradient", "dy", dy),
               w = matrix("matmul gradient", "w", weight.data);
  check("matmul gradient", "w", w, in.columns, out.columns);
  check("matmul gradient", "dx", out, in.rows, w.columns);
  check_dtypes("matmul gradient", out, in, w, false);
  stream.run([=, packs = Packs(weight)] { by_weights(out, in, w, packs, Side::plain, {0, in.rows}); });
}

void matmul_weight_gradient(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, Write write) {
  const Matrix out = matrix("matmul weight gradient", "dw", dw), left = matrix("matmul weight gradient", "dy", dy),
               right = matrix("matmul weight gradient", "x", x);
  check("matmul weight gradient", "x", right, left.rows, right.columns);
  check("matmul weight gradient", "dw", out, left.columns, right.columns);
  check_dtypes("matmul weight gradient", out, left, right, true);
  stream.run([=] { by_rows(out, left, right, write, {0, left.rows}); });
}

void grouped_matmul_forward(Stream& stream, const Tensor& out, const Tensor& x, const Weight& weight,
                            std::span<const int64_t> offsets) {
  const std::string_view op = "grouped matmul";
  const Matrix y = matrix(op, "out", out), in = matrix(op, "x", x), w = matrix(op, "w", weight.data);
  const int64_t experts = weight.data.dim(0);
  check(op, "w", w, experts * y.columns, in.columns);
  check(op, "out", y, in.rows, y.columns);
  check_dtypes(op, y, in, w, false);
  stream.run([=, packs = Packs(weight), o = checked(op, offsets, experts, in.rows)] {
    by_weights(y, in, w, packs, Side::transposed, o);
  });
}

void grouped_matmul_input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Weight& weight,
                                   std::span<const int64_t> offsets) {
  const std::string_view op = "grouped matmul gradient";
  const Matrix out = matrix(op, "dx", dx), in = matrix(op, "dy", dy), w = matrix(op, "w", weight.data);
  const int64_t experts = weight.data.dim(0);
  check(op, "w", w, experts * in.columns, out.columns);
  check(op, "dx", out, in.rows, out.columns);
  check_dtypes(op, out, in, w, false);
  stream.run([=, packs = Packs(weight), o = checked(op, offsets, experts, in.rows)] {
    by_weights(out, in, w, packs, Side::plain, o);
  });
}

void grouped_matmul_weight_gradient(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x,
                                    std::span<const int64_t> offsets, Write write) {
  const std::string_view op = "grouped matmul weight gradient";
  const Matrix out = matrix(op, "dw", dw), left = matrix(op, "dy", dy), right = matrix(op, "x", x);
  const int64_t experts = dw.dim(0);
  check(op, "x", right, left.rows, right.columns);
  check(op, "dw", out, experts * left.columns, right.columns);
  check_dtypes(op, out, left, right, true);
  stream.run([=, o = checked(op, offsets, experts, left.rows)] { by_rows(out, left, right, write, o); });
}

}  // namespace hexad::kernels::cpu
