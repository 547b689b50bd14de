// The operands of one attention call in the form passed to its implementations, and the implementations. See
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

/// Runs cuDNN's fused attention: bf16, without first and last or with counted documents, equally many queries and keys.
/// Returns false, without a launch, if cuDNN cannot take this call.
bool cudnn_attention(Stream& stream, const AttentionForward& call);
bool cudnn_attention(Stream& stream, const AttentionBackward& call);

/// Runs our own kernels, for any call. Backward gives the same bits every time.
void tiled_attention(Stream& stream, const AttentionForward& call);
void tiled_attention(Stream& stream, const AttentionBackward& call);

/// Implements AttentionKernels::merge.
void merge_attention(Stream& stream, const Tensor& sum, const Tensor& sum_log_sum_exp, const Tensor& block,
                     const Tensor& block_log_sum_exp);

/// Bounds of the range of keys that each token sees, [B, S] (i32).
struct DocumentBounds {
  const Tensor &first, &last;
};
/// Writes cuDNN's operands for packed documents, in the order of tokens. lengths[D] (i32) are the documents' lengths.
/// offsets[N, D + 1] (i64) describe N tensors (at most 9), whose tokens are `distances` elements apart: the offsets of
/// the documents' first tokens, then the end of all tokens. If there are fewer than D documents, empty ones follow.
/// Documents beyond D are left out.
void find_documents(Stream& stream, const Tensor& lengths, const Tensor& offsets, const DocumentBounds& bounds,
                    int64_t positions, std::span<const int64_t> distances);

/// Copies out[B, H, S] = x[B S, H] (f32): statistics of rows in cuDNN's layout.
void heads_first(Stream& stream, const Tensor& out, const Tensor& x);

}  // namespace hexad::kernels::cuda
