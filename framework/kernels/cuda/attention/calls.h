// One attention call as its implementations get it, and the implementations. Operands: see AttentionKernels.
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

/// cuDNN's fused attention: bf16, without first and last or with documents that were counted, as many queries as keys.
/// False: not for this call, nothing was launched.
bool cudnn_attention(Stream& stream, const AttentionForward& call);
bool cudnn_attention(Stream& stream, const AttentionBackward& call);

/// Our own kernels: any call. Backward gives the same bits every time.
void tiled_attention(Stream& stream, const AttentionForward& call);
void tiled_attention(Stream& stream, const AttentionBackward& call);

/// AttentionKernels::merge.
void merge_attention(Stream& stream, const Tensor& sum, const Tensor& sum_log_sum_exp, const Tensor& block,
                     const Tensor& block_log_sum_exp);

/// Ranges of keys [B, S] (i32).
struct DocumentBounds {
  const Tensor &first, &last;
};
/// Writes what cuDNN reads of packed documents, in the order of tokens: lengths[D] (i32), and offsets[N, D + 1] (i64)
/// of their first tokens in N tensors (at most 9) that have `distances` elements from token to token, then of the end
/// of all tokens. If there are fewer documents, the last ones are empty, at the end; more than D are left out.
void find_documents(Stream& stream, const Tensor& lengths, const Tensor& offsets, const DocumentBounds& bounds,
                    int64_t positions, std::span<const int64_t> distances);

/// out[B, H, S] = x[B S, H] (f32): statistics of rows as cuDNN reads them.
void heads_first(Stream& stream, const Tensor& out, const Tensor& x);

}  // namespace hexad::kernels::cuda
