// Attention with the kernels of this folder: the tensor-core kernels if they support the operands, otherwise the plain
// kernels.
#include "framework/kernels/cuda/attention/kernels.cuh"

namespace hexad::kernels::cuda {

using namespace base;
using namespace tensor;
namespace {

/// True if every row of every head begins at a multiple of 16 bytes.
bool aligned(const Tensor& t) {
  const auto distance = [&](int d) { return t.dim(d) <= 1 ? 0 : t.strides()[d]; };
  return multiples_of(wide<__nv_bfloat16>, sizeof(__nv_bfloat16), device_raw(t), {distance(0), distance(1)});
}

template <class... Tensors>
bool suits_tensor_cores(const AttentionShape& shape, const Tensor& q, const Tensors&... others) {
  return q.dtype() == Dtype::bf16 && q.dim(2) % wide<__nv_bfloat16> == 0 && q.dim(2) <= largest_tensor_head &&
         shape.scale > 0 && aligned(q) && (aligned(others) && ...);
}

Tensor suspects_of(int64_t sequences, int64_t rows, int64_t heads, Device device) {
  return Tensor::empty({sequences * heads * tiles_of(rows)}, Dtype::i32, device);
}

}  // namespace

void tiled_attention(Stream& stream, const AttentionForward& call) {
  const Visibility visibility(stream, call.first, call.last, call.shape, call.q.device());
  with_dtype<float, bf16, double>("attention", call.q.dtype(), [&]<class T>() {
    const ForwardOperands<device_t<T>> operands{
        .out = head_rows<T>(call.out),
        .q = head_rows<T>(call.q),
        .k = head_rows<T>(call.k),
        .v = head_rows<T>(call.v),
        .log_sum_exp = pointer<accumulator_t<T>>(call.log_sum_exp),
        .visible = visibility.view(),
        .sizes = sizes_of(call.q, call.k, call.shape),
        .scale = static_cast<accumulator_t<T>>(call.shape.scale),
    };
    if constexpr (std::is_same_v<T, bf16>) {
      if (suits_tensor_cores(call.shape, call.q, call.k, call.v, call.out)) {
        const Tensor suspects = suspects_of(call.shape.sequences, call.shape.queries, call.q.dim(1), call.q.device());
        tensor_forward(stream, operands, pointer<int32_t>(suspects));
        plain_forward(stream, operands, pointer<int32_t>(suspects));
        return;
      }
    }
    plain_forward(stream, operands, nullptr);
  });
}

void tiled_attention(Stream& stream, const AttentionBackward& call) {
  const Device device = call.q.device();
  const Visibility visibility(stream, call.first, call.last, call.shape, device);
  with_dtype<float, bf16, double>("attention", call.q.dtype(), [&]<class T>() {
    const AttentionSizes sizes = sizes_of(call.q, call.k, call.shape);
    const int64_t tokens = sizes.sequences * sizes.queries;
    const Tensor mean = Tensor::empty({tokens, sizes.heads}, dtype_of<accumulator_t<T>>, device);
    gradient_means(stream, pointer<accumulator_t<T>>(mean), head_rows<T>(call.dout), head_rows<T>(call.out), tokens,
                   sizes.heads, sizes.size);
    const BackwardOperands<device_t<T>> operands{
        .dq = head_rows<T>(call.dq),
        .dk = head_rows<T>(call.dk),
        .dv = head_rows<T>(call.dv),
        .dout = head_rows<T>(call.dout),
        .q = head_rows<T>(call.q),
        .k = head_rows<T>(call.k),
        .v = head_rows<T>(call.v),
        .log_sum_exp = pointer<accumulator_t<T>>(call.log_sum_exp),
        .mean = pointer<accumulator_t<T>>(mean),
        .visible = visibility.view(),
        .sizes = sizes,
        .scale = static_cast<accumulator_t<T>>(call.shape.scale),
    };
    if constexpr (std::is_same_v<T, bf16>) {
      if (suits_tensor_cores(call.shape, call.q, call.k, call.v, call.dout, call.dq, call.dk, call.dv)) {
        const Tensor query_suspects = suspects_of(sizes.sequences, sizes.queries, sizes.heads, device);
        const Tensor key_suspects = suspects_of(sizes.sequences, sizes.keys, sizes.key_heads, device);
        tensor_backward_queries(stream, operands, pointer<int32_t>(query_suspects));
        tensor_backward_keys(stream, operands, pointer<int32_t>(key_suspects));
        plain_backward_queries(stream, operands, pointer<int32_t>(query_suspects));
        plain_backward_keys(stream, operands, pointer<int32_t>(key_suspects));
        return;
      }
    }
    plain_backward_queries(stream, operands, nullptr);
    plain_backward_keys(stream, operands, nullptr);
  });
}

}  // namespace hexad::kernels::cuda
