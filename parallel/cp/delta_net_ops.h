// Ops of delta nets over sequences whose tokens are divided among several ranks. In each op, the rank of a piece sends
// the data that later tokens need to the rank of the next piece. Backward sends gradients in the opposite direction.
#pragma once

#include "framework/autograd/ops/ops.h"
#include "parallel/comm/process_group.h"
#include "parallel/cp/context_split.h"
#include "parallel/cp/cp_names.h"

namespace hexad::cp {

/// Rows of this rank, and the ranks that have the other rows.
struct DeltaRows {
  ContextSplit split;
  const comm::ProcessGroup* group = nullptr;  // group along cp, with the ranks of the split; must outlive the tape
  Tensor first{};  // i32 [R]: first position of each row's document; undefined: a document is a whole sequence
};

/// Returns the causal convolution of x[R, N] with weight[N, W], followed by SiLU (kernels::CausalConvKernels). R is the
/// number of rows, N the number of channels, and W the length of a filter. A piece must have at least W - 1 tokens if
/// there are several ranks. A rank sends the last W - 1 rows of its pieces to the ranks of the next pieces. Collective,
/// in forward and in backward.
Value causal_conv(Tape& tape, const Value& x, Parameter& weight, const DeltaRows& rows);

/// Operands of delta_rule(), with the shapes of kernels::DeltaRuleOperands.
struct DeltaInputs {
  Value q, k, v, log_decay, strength;
};
/// Returns the outputs [R, H, U] of the gated delta rule (kernels::DeltaRuleKernels). The state of each sequence moves
/// along the pieces. A rank therefore waits for the ranks of the earlier pieces. Collective, in forward and in
/// backward.
Value delta_rule(Tape& tape, const DeltaInputs& in, const DeltaRows& rows);

/// Connects every rank of `group` to the ranks before and after it, for tensors on `device`. Without this call, the
/// first op connects the ranks. Collective. Throws Error(resource) like ProcessGroup::connect().
void connect_chain(const comm::ProcessGroup& group, device::Device device);

}  // namespace hexad::cp
