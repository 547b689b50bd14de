// Implementations of AttentionKernels, and their operands.
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

/// Runs cuDNN's fused attention. A suitable call is bf16 and has as many queries as keys. Its `first` and `last` are
/// undefined, or the number of its documents is known (AttentionShape::documents). Returns false, without a launch, if:
/// - the call does not suit cuDNN (see may_suit() in cudnn.cpp);
/// - the plan of the call would need too much workspace;
/// - cuDNN does not work, or has no plan for the call.
bool cudnn_attention(Stream& stream, const AttentionForward& call);
bool cudnn_attention(Stream& stream, const AttentionBackward& call);

/// Runs the kernels of this folder, which support every call. Backward is bitwise reproducible.
void tiled_attention(Stream& stream, const AttentionForward& call);
void tiled_attention(Stream& stream, const AttentionBackward& call);

/// Implements AttentionKernels::merge.
void merge_attention(Stream& stream, const Tensor& sum, const Tensor& sum_log_sum_exp, const Tensor& block,
                     const Tensor& block_log_sum_exp);

/// Range of keys [first, last) that each token sees. Both tensors are i32 [B, S].
struct DocumentBounds {
  const Tensor &first, &last;
};
/// Writes cuDNN's operands for packed documents, in the order of the tokens:
///
///   lengths[D] (i32)          lengths of the documents, in tokens
///   offsets[N, D + 1] (i64)   for each of N tensors (at most 9): offsets, in elements, of the first token of each
///                             document, and of the end of the last document
///
/// The tokens of tensor n are distances[n] elements apart. If there are fewer than D documents, empty documents follow.
/// Documents beyond D are omitted.
void find_documents(Stream& stream, const Tensor& lengths, const Tensor& offsets, const DocumentBounds& bounds,
                    int64_t positions, std::span<const int64_t> distances);

/// Converts row statistics to cuDNN's layout: out[B, H, S] = x[B S, H] (f32).
void heads_first(Stream& stream, const Tensor& out, const Tensor& x);

}  // namespace hexad::kernels::cuda
