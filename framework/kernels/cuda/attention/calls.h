// Operands of an attention call, in the form that its implementations take, and the implementations. See
// AttentionKernels.
#pragma once

#include <span>

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

struct AttentionForward {
  const Tensor &out, &log_sum_exp, &q, &k, &v, &first, &last;
  const AttentionShape& shape;
};
struct AttentionBackward {
  const Tensor &dq, &dk, &dv, &dout, &out, &log_sum_exp, &q, &k, &v, &first, &last;
  const AttentionShape& shape;
};

/// Runs cuDNN's fused attention. It requires bf16, as many queries as keys, and either no `first` and `last` or counted
/// documents. Returns false, without a launch, if cuDNN does not support the call.
bool cudnn_attention(Stream& stream, const AttentionForward& call);
bool cudnn_attention(Stream& stream, const AttentionBackward& call);

/// Runs our own kernels, which support every call. Backward gives bitwise identical results each time.
void tiled_attention(Stream& stream, const AttentionForward& call);
void tiled_attention(Stream& stream, const AttentionBackward& call);

/// Implements AttentionKernels::merge.
void merge_attention(Stream& stream, const Tensor& sum, const Tensor& sum_log_sum_exp, const Tensor& block,
                     const Tensor& block_log_sum_exp);

/// Range of keys [first, last) that each token sees: two tensors [B, S] (i32).
struct DocumentBounds {
  const Tensor &first, &last;
};
/// Writes cuDNN's operands for packed documents, in the order of the tokens. lengths[D] (i32) receives the lengths of
/// the documents. offsets[N, D + 1] (i64) describes N tensors (at most 9): the offsets of the first token of each
/// document, then the end of the last one, in elements. The tokens of tensor n are distances[n] elements apart. If
/// there are fewer than D documents, empty ones follow. Documents beyond D are omitted.
void find_documents(Stream& stream, const Tensor& lengths, const Tensor& offsets, const DocumentBounds& bounds,
                    int64_t positions, std::span<const int64_t> distances);

/// Copies out[B, H, S] = x[B S, H] (f32), which converts row statistics to cuDNN's layout.
void heads_first(Stream& stream, const Tensor& out, const Tensor& x);

}  // namespace hexad::kernels::cuda
