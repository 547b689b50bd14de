// Ops between two kinds of regions of a model. In a region of the first kind, all tensor-parallel ranks do the same
// with equal tensors. In a region of the second kind, each rank computes a different part of the result. Each op is
// linear. Its backward is the adjoint, with these gradients of activations:
// - first kind: each rank has the full gradient, and these gradients are bitwise identical
// - second kind: the gradient of an activation that is equal on all ranks is an addend of the full gradient
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
