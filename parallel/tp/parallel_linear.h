// Products whose weight is split over tensor-parallel ranks, overlapped with their communication. They are bitwise
// equal to the compositions of parallel/tp/regions.h and `linear`. In a group of one they are `linear`.
//
// R: rows of the micro-batch on this rank (before any split over tp); n = R / tp. Weight gradients are separate tasks.
#pragma once

#include <span>
#include <vector>

#include "parallel/tp/tensor_parallel.h"

namespace hexad::tp {

using autograd::Parameter;
using autograd::Tape;
using autograd::Value;

struct Projection {
  Parameter* weight;  // [N of this rank, D]: outputs are split; or a stack [n, N of this rank, D] with n N outputs
  Parameter* bias = nullptr;
};

/// Returns y_i[R, N_i] = x w_i^T + b_i for products of one x. Without sequence parallelism x is [R, D], the same on all
/// ranks; backward sums the ranks' gradients of x piece by piece while it computes them. With sequence parallelism x is
/// this rank's [n, D], and rows are multiplied as they arrive. Only x is kept. Backward gathers the rows again for the
/// weights, and sends the gradients' rows to their owners as they are computed.
std::vector<Value> column_linear(Tape& tape, const Value& x, std::span<const Projection> projections,
                                 const TensorParallel& tp);

/// Returns the sum over the ranks of x w^T, plus bias: x[R, D of this rank], w[N, D of this rank], so inputs are split.
/// `bias` [N] (may be null) is the same on all ranks and added once. The result is [R, N] on all ranks, or with
/// sequence parallelism this rank's rows [n, N]. In that case the bias' gradient covers only these rows and is an
/// addend of the whole.
Value row_linear(Tape& tape, const Value& x, Parameter& w, Parameter* bias, const TensorParallel& tp);

}  // namespace hexad::tp
