// Ops between regions of a model where tensor-parallel ranks hold the same and where they hold parts. Each is linear,
// and its backward is the adjoint under two conventions: an activation that the ranks hold alike has its full gradient
// on each of them, bit for bit the same; where ranks consume one activation to make parts, the gradients that they
// compute are addends.
//
// x is [rows, ...]. In a group of one every op returns its input. Rows must be divisible by the size of the group.
#pragma once

#include "parallel/tp/tensor_parallel.h"

namespace hexad::tp {

using autograd::Tape;
using autograd::Value;

/// Returns the same x, before a column-parallel product; backward sums the ranks' gradients.
Value enter(Tape& tape, const Value& x, const ProcessGroup& group);
/// Returns the sum of the ranks' y, after a row-parallel product; backward passes the gradient on.
Value leave(Tape& tape, const Value& y, const ProcessGroup& group);

/// `enter` under sequence parallelism: all ranks' rows, in rank order; backward sums the ranks' gradients and keeps
/// this rank's rows.
Value gather_rows(Tape& tape, const Value& x, const ProcessGroup& group);
/// `leave` under sequence parallelism: this rank's rows of the sum of the ranks' y; backward gathers the gradients'
/// rows.
Value scatter_rows(Tape& tape, const Value& y, const ProcessGroup& group);

/// This rank's share of rows that the ranks hold alike; backward gathers the gradients' rows.
Value take_rows(Tape& tape, const Value& x, const ProcessGroup& group);
/// All ranks' rows as an activation that every rank goes on with alike: its gradient is full on every rank, and
/// backward keeps this rank's rows of it.
Value collect_rows(Tape& tape, const Value& x, const ProcessGroup& group);

}  // namespace hexad::tp
