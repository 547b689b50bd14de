// Chooses the implementation of each grouped product.
#include <algorithm>

#include "framework/kernels/cuda/products/grouped_passes.h"
#include "framework/kernels/cuda/products/grouped_seconds.h"
#include "framework/kernels/cuda/products/product_groups.h"
#include "framework/kernels/kernel_table.h"
#include "framework/tensor/device_access.h"

namespace hexad::kernels::cuda {

using namespace base;
using namespace tensor;
namespace {

// Minimum number of elements of a weight, and minimum average number of rows per group, for operands that tensor cores
// do not support. From these sizes on, each group is a separate dense product. This requires that the card has a kernel
// for all groups (tensor_cores::in_one_kernel) and that the host has the offsets. Dense products of f32 and f64 are
// assumed to be faster than the simple kernel (not measured).
constexpr int64_t large_weight = 4096 * 4096, many_rows = 1024;
// Minimum average number of rows per group for a separate launch for each group, on cards without a kernel for all
// groups. With fewer rows, the simple kernel computes all groups in one launch (not measured).
constexpr int64_t few_rows = 16;

/// Operands of a pass as matrices: x[R, width], y[R, features], w[E, features, width].
struct Operands {
  Tensor x, y, w;
  int64_t groups = 0, rows = 0, features = 0, width = 0;
};

Tensor contiguous_rows(std::string_view op, std::string_view name, const Tensor& t) {
  require(t.rank() >= 2 && t.contiguous() && is_floating(t.dtype()), "[", op, "] ", name, " is ", t.dtype(), " ",
          t.shape(), " with strides ", t.strides(),
          "; expected contiguous rows of a floating dtype, with at least two dimensions");
  const int64_t columns = t.dim(-1);
  return t.rank() == 2 ? t : t.reshape({columns == 0 ? 0 : t.numel() / columns, columns});
}

Operands operands(std::string_view op, const Tensor& x, const Tensor& y, const Tensor& w) {
  require(w.rank() >= 3 && w.contiguous(), "[", op, "] weights are ", w.shape(), " with strides ", w.strides(),
          "; expected contiguous weights with at least three dimensions: experts, features and width");
  Operands o{.x = contiguous_rows(op, "x", x), .y = contiguous_rows(op, "y", y), .w = w};
  o.groups = w.dim(0);
  o.rows = o.x.dim(0);
  o.features = o.y.dim(1);
  o.width = o.x.dim(1);
  require(o.y.dim(0) == o.rows, "[", op, "] x has ", o.rows, " rows and y has ", o.y.dim(0),
          " rows; expected equal numbers");
  require(w.dim(-1) == o.width && w.numel() == o.groups * o.features * o.width, "[", op, "] weights are ", w.shape(),
          ", but rows of x have ", o.width, " elements and rows of y have ", o.features, "; expected [experts, ",
          o.features, ", ", o.width, "], where ", o.features, " may be split over several dimensions");
  const bool acc = w.dtype() == accumulator_dtype(x.dtype());
  require(x.dtype() == y.dtype() && (w.dtype() == x.dtype() || acc), "[", op, "] dtypes of x, y and w are ", x.dtype(),
          ", ", y.dtype(), " and ", w.dtype(), "; expected one dtype for x and y, and for w this dtype or ",
          accumulator_dtype(x.dtype()));
  return o;
}

/// True if tensor cores support the operands. TMA and cuBLASLt need rows at multiples of 16 bytes, and the sum of a
/// tile must have at least one term. If each group would be a separate launch, the groups must also have enough rows.
bool fits_tensor_cores(const Operands& o) {
  const auto aligned = [](const Tensor& t) { return reinterpret_cast<uintptr_t>(device_raw(t)) % 16 == 0; };
  if (!tensor_cores::in_one_kernel && o.rows < few_rows * o.groups) return false;
  return o.x.dtype() == Dtype::bf16 && o.features > 0 && o.features % 8 == 0 && o.width > 0 && o.width % 8 == 0 &&
         aligned(o.x) && aligned(o.y) && aligned(o.w);
}

/// Returns the value of GroupedProduct::weight_bytes for a product with the weights, or weight gradients, w.
int64_t weight_bytes(const Tensor& w, GroupedPass pass, Write write) {
  const int64_t size = size_of(w.dtype());
  return pass == GroupedPass::weight_gradient && write == Write::add ? 2 * size : size;
}

bool uses_one_product_per_group(const Operands& o, const GroupOffsets& offsets, GroupedPass pass, Write write) {
  if (offsets.host.empty()) return false;
  const bool fits = fits_tensor_cores(o);
  if (!tensor_cores::in_one_kernel) return fits;
  if (!fits)
    return o.features * o.width >= large_weight && offsets.host.back() - offsets.host.front() >= many_rows * o.groups;
  const GroupedProduct product{pass, o.features, o.width, offsets.host, weight_bytes(o.w, pass, write)};
  return seconds_one_by_one(product) < seconds_in_one_kernel(product);
}

/// True if the host does not have the offsets, or if the offsets show that a group has no rows.
bool may_have_empty_groups(const GroupOffsets& offsets) {
  return offsets.host.empty() || std::ranges::adjacent_find(offsets.host) != offsets.host.end();
}

/// Calls f(e, rows of x, rows of y) for each expert e.
template <class F>
void for_each_expert(const Operands& o, const GroupOffsets& offsets, const F& f) {
  for (int64_t e = 0; e < o.groups; ++e) {
    const size_t i = e;
    const int64_t begin = offsets.host[i], end = offsets.host[i + 1];
    f(e, o.x.slice(0, begin, end), o.y.slice(0, begin, end));
  }
}

void forward(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& weight, const GroupOffsets& offsets,
             Write write) {
  const std::string_view op = "grouped matmul";
  const Operands o = operands(op, x, out, weight);
  require(o.w.dtype() == x.dtype(), "[", op, "] weights are ", o.w.dtype(), "; expected the dtype of the rows, ",
          x.dtype());
  check_offsets(op, offsets, o.groups, o.rows);
  if (o.groups == 0 || o.rows == 0 || o.features == 0) return;
  if (uses_one_product_per_group(o, offsets, GroupedPass::forward, write))
    return for_each_expert(o, offsets, [&](int64_t e, const Tensor& in, const Tensor& result) {
      MatmulKernels::of_cuda.forward(stream, result, in, expert_matrix(o.w, e), write);
    });
  const auto way = fits_tensor_cores(o) ? tensor_cores::forward : simple::forward;
  way(stream, o.y, o.x, o.w, offsets_on_device(stream, offsets, x.device()), write);
}

void input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& weight,
                    const GroupOffsets& offsets, Write write) {
  const std::string_view op = "grouped matmul gradient";
  const Operands o = operands(op, dx, dy, weight);
  require(o.w.dtype() == dx.dtype(), "[", op, "] weights are ", o.w.dtype(), "; expected the dtype of the rows, ",
          dx.dtype());
  check_offsets(op, offsets, o.groups, o.rows);
  if (o.groups == 0 || o.rows == 0 || o.width == 0) return;
  if (uses_one_product_per_group(o, offsets, GroupedPass::input_gradient, write))
    return for_each_expert(o, offsets, [&](int64_t e, const Tensor& result, const Tensor& in) {
      MatmulKernels::of_cuda.input_gradient(stream, result, in, expert_matrix(o.w, e), write);
    });
  const auto way = fits_tensor_cores(o) ? tensor_cores::input_gradient : simple::input_gradient;
  way(stream, o.x, o.y, o.w, offsets_on_device(stream, offsets, dy.device()), write);
}

void weight_gradient(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, const GroupOffsets& offsets,
                     Write write) {
  const std::string_view op = "grouped matmul weight gradient";
  const Operands o = operands(op, x, dy, dw);
  check_offsets(op, offsets, o.groups, o.rows);
  if (o.groups == 0 || o.features == 0 || o.width == 0) return;
  if (o.rows == 0) {
    if (write == Write::replace) dw.device().context().fill(stream, device_raw(dw), 0, dw.bytes());
    return;
  }
  if (uses_one_product_per_group(o, offsets, GroupedPass::weight_gradient, write))
    return for_each_expert(o, offsets, [&](int64_t e, const Tensor& in, const Tensor& dout) {
      MatmulKernels::of_cuda.weight_gradient(stream, expert_matrix(o.w, e), dout, in, write);
    });
  const Tensor known = offsets_on_device(stream, offsets, x.device());
  if (!fits_tensor_cores(o)) return simple::weight_gradient(stream, dw, o.y, o.x, known, write);
  if (write == Write::replace && may_have_empty_groups(offsets)) zero_empty_groups(stream, dw, known);
  const auto way = dw.dtype() == Dtype::bf16 ? tensor_cores::weight_gradient_bf16 : tensor_cores::weight_gradient;
  way(stream, dw, o.y, o.x, known, write);
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const GroupedMatmulKernels GroupedMatmulKernels::of_cuda{
    .forward = cuda::forward, .input_gradient = cuda::input_gradient, .weight_gradient = cuda::weight_gradient};

}  // namespace hexad::kernels
