// Ops between regions of a model where tensor-parallel ranks hold equal tensors and regions where they hold parts. Each
// op is linear, and its backward is the adjoint under two conventions. First: an activation that is equal on all ranks
// has its full gradient on each rank, bitwise identical. Second: if ranks consume one activation to make parts, the
// gradients that they compute are addends.
//
// x is [rows, ...]. In a group of one every op returns its input. The number of rows must be divisible by the size of
// the group.
#pragma once

#include "parallel/tp/tensor_parallel.h"

namespace hexad::tp {

using autograd::Tape;
using autograd::Value;

/// Returns the same x, before a column-parallel product; backward sums the ranks' gradients.
Value enter(Tape& tape, const Value& x, const ProcessGroup& group);
/// Returns the sum of the ranks' y, after a row-parallel product; backward returns the gradient unchanged.
Value leave(Tape& tape, const Value& y, const ProcessGroup& group);

/// Returns all ranks' rows, in rank order: `enter` under sequence parallelism. Backward sums the ranks' gradients and
/// keeps this rank's rows.
Value gather_rows(Tape& tape, const Value& x, const ProcessGroup& group);
/// Returns this rank's rows of the sum of the ranks' y: `leave` under sequence parallelism. Backward gathers the
/// gradients' rows.
Value scatter_rows(Tape& tape, const Value& y, const ProcessGroup& group);

/// Returns all ranks' rows as an activation that every rank uses in the same way. Its gradient is full on every rank;
/// backward keeps this rank's rows of it.
Value collect_rows(Tape& tape, const Value& x, const ProcessGroup& group);

}  // namespace hexad::tp
