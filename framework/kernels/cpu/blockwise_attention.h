// Blockwise attention on the CPU (Dao et al. 2022). AttentionKernels describes the operands.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

void attention_forward(Stream&, const Tensor& out, const Tensor& log_sum_exp, const Tensor& q, const Tensor& k,
                       const Tensor& v, const Tensor& first, const Tensor& last, const AttentionShape& shape);
void attention_backward(Stream&, const AttentionGradients& gradients, const Tensor& dout, const AttentionSaved& saved,
                        const AttentionShape& shape);

/// Implements AttentionKernels::merge, elementwise, in attention_merge.cpp.
void attention_merge(Stream&, const Tensor& sum, const Tensor& sum_log_sum_exp, const Tensor& block,
                     const Tensor& block_log_sum_exp);

}  // namespace hexad::kernels::cpu
