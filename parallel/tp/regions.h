// Ops between two kinds of regions of a model. In one kind, tensor-parallel ranks have equal tensors. In the other
// kind, each rank has a part of each tensor. Each op is linear, and its backward is the adjoint under two conventions.
// In the first kind of region, each rank has the full gradient of an activation, and these gradients are bitwise
// identical. In the second kind of region, each rank uses an equal activation to compute a different part of a result.
// The gradient of the activation on a rank is then an addend of the full gradient.
//
// x is [rows, ...]. In a group of one rank, every op returns its input. scatter_rows() requires a number of rows that
// is divisible by the size of the group.
#pragma once

#include "parallel/tp/tensor_parallel.h"
#include "parallel/tp/tp_names.h"

namespace hexad::tp {

/// Returns x, for a column-parallel product. Backward sums the gradients over the ranks.
Value enter(Tape& tape, const Value& x, const ProcessGroup& group);
/// Returns the sum of y over the ranks, after a row-parallel product. Backward passes the gradient on unchanged.
Value leave(Tape& tape, const Value& y, const ProcessGroup& group);

/// Returns the rows of all ranks, in the order of the ranks. This is `enter` for sequence parallelism. Backward sums
/// the gradients over the ranks and returns this rank's rows.
Value gather_rows(Tape& tape, const Value& x, const ProcessGroup& group);
/// Returns this rank's rows of the sum of y over the ranks. This is `leave` for sequence parallelism. Backward gathers
/// the rows of the gradients.
Value scatter_rows(Tape& tape, const Value& y, const ProcessGroup& group);

/// Returns the rows of all ranks, for computations that are identical on every rank. The gradient is then complete on
/// every rank, and backward returns this rank's rows of the gradient.
Value collect_rows(Tape& tape, const Value& x, const ProcessGroup& group);

}  // namespace hexad::tp
