#include "framework/kernels/cpu/products/products.h"

#include <algorithm>
#include <vector>

#include "framework/kernels/cpu/groups.h"
#include "framework/kernels/cpu/products/add_rounded.h"
#include "framework/kernels/cpu/products/gemm.h"
#include "framework/kernels/cpu/products/onednn.h"
#include "framework/kernels/cpu/simd/isa.h"

namespace hexad::kernels::cpu {

using namespace base;
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

Dtype dtype(const Matrix& m) { return m.tensor.dtype(); }

/// Throws unless the result of operands of `in` is of that dtype or their accumulator's.
void check_result(std::string_view op, const Matrix& out, Dtype in) {
  const Dtype accumulator = accumulator_dtype(in);
  require(dtype(out) == in || dtype(out) == accumulator, "[", op, "] the result of ", in, " operands is ", dtype(out),
          "; expected ", accumulator);
}

/// Throws unless `a` and `b` are of one dtype, or `wide` of the accumulator of the other's.
void check_operands(std::string_view op, const Matrix& wide, const Matrix& other) {
  require(dtype(wide) == dtype(other) || dtype(wide) == accumulator_dtype(dtype(other)), "[", op, "] operands are ",
          dtype(other), " and ", dtype(wide), "; expected one dtype");
}

/// Throws unless all are of one dtype.
void check_same(std::string_view op, std::initializer_list<const Matrix*> all) {
  const Matrix& first = **all.begin();
  for (const Matrix* m : all)
    require(dtype(*m) == dtype(first), "[", op, "] operands are ", dtype(first), " and ", dtype(*m),
            "; expected one dtype");
}

/// Whether bf16 products are the library's. AMX is faster through our own loops: they compile nothing per shape and
/// keep no packed weights.
bool library_is_preferred() {
  static const bool preferred = !machine_has_amx() && onednn::available() && onednn::preferred();
  return preferred;
}

/// What multiplies two operands.
class Multiplier {
 public:
  Multiplier(const Matrix& a, const Matrix& b) : narrow_(dtype(a) == Dtype::bf16 && dtype(b) == Dtype::bf16) {}

  /// Whether threads share out this product together with others: it is neither the library's nor added to bf16.
  bool own(const GemmTile& p) const { return !library(p) && !adds_to_bf16(p); }
  /// Computes such products.
  void multiply(std::span<const GemmTile> products) const {
    gemm(products, narrow_ && machine_has_amx() ? Unit::matrix : Unit::vector);
  }
  /// Computes any other one. The library keeps its packed b in `packs`, which may be null, under `key`.
  void multiply(const GemmTile& p, PackCache* packs, uint64_t key) const {
    if (adds_to_bf16(p))
      add_rounded(p, [&](const GemmTile& part) { multiply(part, packs, key); });
    else if (library(p))
      onednn::multiply(p, packs, key);
    else
      multiply({&p, 1});
  }

 private:
  static bool adds_to_bf16(const GemmTile& p) { return p.add && p.c.dtype == Dtype::bf16; }
  bool library(const GemmTile& p) const { return narrow_ && p.k > 0 && library_is_preferred(); }

  bool narrow_;  // both operands are bf16
};

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

/// out rows [offsets[e], offsets[e + 1]) = or += the same rows of `in` times expert e's weight.
void by_weights(const Matrix& out, const Matrix& in, const Matrix& w, const Packs& packs, Side side, Write write,
                const std::vector<int64_t>& offsets) {
  const auto experts = static_cast<int64_t>(offsets.size()) - 1;
  const int64_t height = w.rows / std::max<int64_t>(experts, 1);
  const Multiplier multiplier(in, w);
  std::vector<GemmTile> products;
  for (int64_t e = 0; e < experts; ++e) {
    const auto i = static_cast<size_t>(e);
    const int64_t begin = offsets[i], rows = offsets[i + 1] - begin;
    if (rows == 0) continue;
    GemmTile p{.m = rows,
               .n = out.columns,
               .k = in.columns,
               .a = in.operand(begin),
               .b = side == Side::transposed ? w.transposed(e * height) : w.operand(e * height),
               .c = out.result(begin),
               .add = write == Write::add};
    if (multiplier.own(p)) {
      products.push_back(p);
      continue;
    }
    // Every number of rows is a shape of its own to oneDNN. Rounding it up writes into the next experts' rows, which
    // are computed after this.
    if (!p.add) p.m = std::min((rows + 15) / 16 * 16, offsets.back() - begin);
    multiplier.multiply(p, packs.cache, packs.key(e, side));
  }
  multiplier.multiply(products);
}

/// dw of expert e = or += dy^T x over its rows.
void by_rows(const Matrix& dw, const Matrix& dy, const Matrix& x, Write write, const std::vector<int64_t>& offsets) {
  const Multiplier multiplier(dy, x);
  std::vector<GemmTile> products;
  for (size_t e = 0; e + 1 < offsets.size(); ++e) {
    const GemmTile p{.m = dy.columns,
                     .n = x.columns,
                     .k = offsets[e + 1] - offsets[e],
                     .a = dy.transposed(offsets[e]),
                     .b = x.operand(offsets[e]),
                     .c = dw.result(static_cast<int64_t>(e) * dy.columns),
                     .add = write == Write::add};
    if (multiplier.own(p))
      products.push_back(p);
    else
      multiplier.multiply(p, nullptr, 0);
  }
  multiplier.multiply(products);
}

}  // namespace

bool bf16_products_are_native() { return machine_has_amx() || library_is_preferred(); }

std::string products_description() {
  const std::string own = cat("own kernels (", name_of(machine_isa()), ")");
  if (machine_has_amx()) return cat("f32, f64: ", own, "; bf16: own kernels (AMX)");
  if (library_is_preferred()) return cat("f32, f64: ", own, "; bf16: ", onednn::description());
  return cat("f32, f64: ", own, "; bf16: the same after widening to f32, without AMX; ", onednn::description());
}

void matmul_forward(Stream& stream, const Tensor& out, const Tensor& x, const Weight& weight, Write write) {
  const std::string_view op = "matmul";
  const Matrix y = matrix(op, "out", out), in = matrix(op, "x", x), w = matrix(op, "w", weight.data);
  check(op, "w", w, y.columns, in.columns);
  check(op, "out", y, in.rows, w.rows);
  check_operands(op, w, in);
  check_result(op, y, dtype(w));
  stream.run([=, packs = Packs(weight)] { by_weights(y, in, w, packs, Side::transposed, write, {0, in.rows}); });
}

void matmul_input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Weight& weight, Write write) {
  const std::string_view op = "matmul gradient";
  const Matrix out = matrix(op, "dx", dx), in = matrix(op, "dy", dy), w = matrix(op, "w", weight.data);
  check(op, "w", w, in.columns, out.columns);
  check(op, "dx", out, in.rows, w.columns);
  check_same(op, {&in, &w});
  if (accumulator_dtype(dtype(out)) != dtype(w)) check_result(op, out, dtype(w));
  stream.run([=, packs = Packs(weight)] { by_weights(out, in, w, packs, Side::plain, write, {0, in.rows}); });
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

void grouped_matmul_forward(Stream& stream, const Tensor& out, const Tensor& x, const Weight& weight,
                            const GroupOffsets& offsets, Write write) {
  const std::string_view op = "grouped matmul";
  const Matrix y = matrix(op, "out", out), in = matrix(op, "x", x), w = matrix(op, "w", weight.data);
  const int64_t experts = weight.data.dim(0);
  check(op, "w", w, experts * y.columns, in.columns);
  check(op, "out", y, in.rows, y.columns);
  check_same(op, {&in, &w, &y});
  stream.run([=, packs = Packs(weight), groups = Groups(op, offsets, experts, in.rows)] {
    by_weights(y, in, w, packs, Side::transposed, write, groups.offsets());
  });
}

void grouped_matmul_input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Weight& weight,
                                   const GroupOffsets& offsets, Write write) {
  const std::string_view op = "grouped matmul gradient";
  const Matrix out = matrix(op, "dx", dx), in = matrix(op, "dy", dy), w = matrix(op, "w", weight.data);
  const int64_t experts = weight.data.dim(0);
  check(op, "w", w, experts * in.columns, out.columns);
  check(op, "dx", out, in.rows, out.columns);
  check_same(op, {&in, &w, &out});
  stream.run([=, packs = Packs(weight), groups = Groups(op, offsets, experts, in.rows)] {
    by_weights(out, in, w, packs, Side::plain, write, groups.offsets());
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
