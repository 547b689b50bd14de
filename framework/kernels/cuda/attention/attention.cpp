// Checks a call and chooses its implementation: cuDNN if cudnn_attention() accepts the call, otherwise the kernels of
// this folder.
#include <cstdint>

#include "framework/kernels/cuda/attention/attention_calls.h"
#include "framework/kernels/kernel_table.h"
#include "framework/kernels/operand_checks.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

void require_rows(std::string_view name, const Tensor& t, Dtype dtype, const Shape& shape) {
  require(t.shape() == shape && t.dtype() == dtype, "[attention] ", name, " is ", t.dtype(), " ", t.shape(),
          "; expected ", dtype, " ", shape);
  require(shape[2] <= 1 || t.strides()[2] == 1, "[attention] ", name, " of shape ", t.shape(), " has strides ",
          t.strides(), "; expected the last dimension to be contiguous");
}

/// Checks the operands that forward and backward have in common.
template <class Call>
void check_call(const Call& c) {
  const AttentionShape& s = c.shape;
  require(c.q.rank() == 3 && c.k.rank() == 3 && is_floating(c.q.dtype()), "[attention] q is ", c.q.dtype(), " ",
          c.q.shape(), " and k ", c.k.shape(), "; expected a floating dtype and shapes [tokens, heads, size]");
  const int64_t heads = c.q.dim(1), key_heads = c.k.dim(1), size = c.q.dim(2);
  require(
      key_heads > 0 && heads % key_heads == 0, "[attention] ", heads, " query heads for ", key_heads,
      " key heads; expected at least one key head, and a number of query heads divisible by the number of key heads");
  constexpr int64_t most = INT32_MAX / 2;  // an int must also hold positions beyond the end, in the last tile
  require(size > 0 && size <= most && heads <= most && s.queries <= most && s.keys <= most, "[attention] ", heads,
          " heads of size ", size, ", ", s.queries, " queries and ", s.keys,
          " keys; expected a size of at least 1, and at most ", most, " for each of these numbers");
  require_rows("q", c.q, c.q.dtype(), {s.sequences * s.queries, heads, size});
  require_rows("k", c.k, c.q.dtype(), {s.sequences * s.keys, key_heads, size});
  require_rows("v", c.v, c.q.dtype(), c.k.shape());
  require_rows("out", c.out, c.q.dtype(), c.q.shape());
  const Dtype acc = accumulator_dtype(c.q.dtype());
  require(c.log_sum_exp.dtype() == acc && c.log_sum_exp.numel() == s.sequences * s.queries * heads &&
              c.log_sum_exp.contiguous(),
          "[attention] log_sum_exp is ", c.log_sum_exp.dtype(), " ", c.log_sum_exp.shape(), " with strides ",
          c.log_sum_exp.strides(), "; expected contiguous ", acc, " ", Shape({s.sequences * s.queries, heads}));
  check_bounds("first", c.first, s);
  check_bounds("last", c.last, s);
}

void forward(Stream& stream, const Tensor& out, const Tensor& log_sum_exp, const Tensor& q, const Tensor& k,
             const Tensor& v, const Tensor& first, const Tensor& last, const AttentionShape& shape) {
  const AttentionForward call{out, log_sum_exp, q, k, v, first, last, shape};
  check_call(call);
  if (q.numel() > 0 && !cudnn_attention(stream, call)) tiled_attention(stream, call);
}

void backward(Stream& stream, const AttentionGradients& gradients, const Tensor& dout, const AttentionSaved& saved,
              const AttentionShape& shape) {
  const auto& [dq, dk, dv] = gradients;
  const auto& [out, log_sum_exp, q, k, v, first, last] = saved;
  const AttentionBackward call{dq, dk, dv, dout, out, log_sum_exp, q, k, v, first, last, shape};
  check_call(call);
  require_rows("dout", dout, q.dtype(), q.shape());
  require_rows("dq", dq, q.dtype(), q.shape());
  require_rows("dk", dk, q.dtype(), k.shape());
  require_rows("dv", dv, q.dtype(), k.shape());
  if (q.numel() + k.numel() > 0 && !cudnn_attention(stream, call)) tiled_attention(stream, call);
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const AttentionKernels AttentionKernels::of_cuda{
    .forward = cuda::forward, .backward = cuda::backward, .merge = cuda::merge_attention};

}  // namespace hexad::kernels
