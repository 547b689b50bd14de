// One attention call as its implementations get it, and the implementations. Operands: see AttentionKernels.
#pragma once

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

/// cuDNN's fused attention: bf16 without first and last, as many queries as keys. False: not for this call, nothing was
/// launched.
bool cudnn_attention(Stream& stream, const AttentionForward& call);
bool cudnn_attention(Stream& stream, const AttentionBackward& call);

/// Our own kernels: any call. Backward gives the same bits every time.
void tiled_attention(Stream& stream, const AttentionForward& call);
void tiled_attention(Stream& stream, const AttentionBackward& call);

/// AttentionKernels::merge.
void merge_attention(Stream& stream, const Tensor& sum, const Tensor& sum_log_sum_exp, const Tensor& block,
                     const Tensor& block_log_sum_exp);

/// out[B, H, S] = x[B S, H] (f32): statistics of rows as cuDNN reads them.
void heads_first(Stream& stream, const Tensor& out, const Tensor& x);

}  // namespace hexad::kernels::cuda
