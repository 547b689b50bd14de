// Products and attention kernels, whose operations are counted.
#include <algorithm>

#include "framework/kernels/meta/meta_kernels.h"

namespace hexad::kernels::meta {
namespace {

// Counts a product of rows [T, A] and [T, B], or one with such rows as operand and result.
void product(const Tensor& result, int64_t rows, int64_t a, int64_t b) {
  forget(result);
  run_of(result).product_flops += 2.0 * static_cast<double>(rows) * static_cast<double>(a) * static_cast<double>(b);
}

// Returns the number of rows. The host does not know a device's offsets, so all slots count, the upper bound.
int64_t rows_of(const GroupOffsets& offsets, const Tensor& x) {
  return offsets.host.empty() ? x.dim(0) : offsets.host.back() - offsets.host.front();
}

// Returns the FLOPs of scores and of their product with the values. Queries and keys are treated as continuous: a
// causal sequence sees half of itself. Document borders are ignored.
double attention_flops(const Tensor& q, const AttentionShape& shape) {
  const auto queries = static_cast<double>(shape.queries), keys = static_cast<double>(shape.keys);
  double seen = queries * keys;
  if (shape.causal) {
    const double begin = std::clamp(static_cast<double>(shape.query_offset), 0.0, keys),
                 end = std::clamp(static_cast<double>(shape.query_offset) + queries, 0.0, keys);
    seen = (end * end - begin * begin) / 2 +
           std::max(0.0, static_cast<double>(shape.query_offset) + queries - std::max(keys, begin)) * keys;
  }
  return 4.0 * static_cast<double>(shape.sequences * q.dim(1) * q.dim(2)) * seen;
}

}  // namespace

const MatmulKernels matmul{
    .forward = [](Stream&, const Tensor& out, const Tensor& x, const Tensor& w,
                  Write) { product(out, x.dim(0), w.dim(0), w.dim(1)); },
    .input_gradient = [](Stream&, const Tensor& dx, const Tensor& dy, const Tensor& w,
                         Write) { product(dx, dy.dim(0), w.dim(0), w.dim(1)); },
    .weight_gradient = [](Stream&, const Tensor& dw, const Tensor& dy, const Tensor& x,
                          Write) { product(dw, x.dim(0), dy.dim(1), x.dim(1)); },
};

const GroupedMatmulKernels grouped_matmul{
    .forward = [](Stream&, const Tensor& out, const Tensor& x, const Tensor& w, const GroupOffsets& offsets,
                  Write) { product(out, rows_of(offsets, x), w.dim(1), w.dim(2)); },
    .input_gradient = [](Stream&, const Tensor& dx, const Tensor& dy, const Tensor& w, const GroupOffsets& offsets,
                         Write) { product(dx, rows_of(offsets, dy), w.dim(1), w.dim(2)); },
    .weight_gradient = [](Stream&, const Tensor& dw, const Tensor& dy, const Tensor& x, const GroupOffsets& offsets,
                          Write) { product(dw, rows_of(offsets, x), dy.dim(1), x.dim(1)); },
};

void attention_forward(Stream&, const Tensor& out, const Tensor& log_sum_exp, const Tensor& q, const Tensor&,
                       const Tensor&, const Tensor&, const Tensor&, const AttentionShape& shape) {
  for (const Tensor* result : {&out, &log_sum_exp}) forget(*result);
  run_of(out).attention_flops += attention_flops(q, shape);
}

// Counts the gradients of both operands for each of the two products.
void attention_backward(Stream&, const AttentionGradients& gradients, const Tensor&, const AttentionSaved& saved,
                        const AttentionShape& shape) {
  forget(gradients);
  run_of(gradients.dq).attention_flops += 2 * attention_flops(saved.q, shape);
}

}  // namespace hexad::kernels::meta
