// Matrix products whose weight is divided among tensor-parallel ranks, and which overlap with their communication. In
// groups that sum in the order of the ranks (ProcessGroup::all_reduce()), results are bitwise identical to the results
// of `linear` with the ops of parallel/tp/regions.h. In a group of one rank, the products are `linear`.
//
// R is the number of rows of the micro-batch before division over the tp ranks, and n = R / tp. Weight gradients are
// separate tasks.
#pragma once

#include <span>
#include <vector>

#include "framework/schedule/task_graph.h"
#include "parallel/tp/tensor_parallel.h"
#include "parallel/tp/tp_names.h"

namespace hexad::tp {

struct Projection {
  Parameter* weight;  // [N of this rank, D], divided by outputs; or a stack of k weights, [k, N of this rank, D], with
                      // k * N outputs
  Parameter* bias = nullptr;
};

/// Returns y_i[R, N_i] = x w_i^T + b_i for several products of the same x.
/// - Without sequence parallelism, x is [R, D] and the same on all ranks. Backward computes the gradient of x piece by
///   piece, and sums each piece over the ranks while it computes the next piece.
/// - With sequence parallelism, x [n, D] has this rank's rows, and the rows of each rank are multiplied when they
///   arrive. Only x is saved. Backward gathers the rows again for the weight gradients. It sends the rows of the
///   gradient of x to their ranks as soon as these rows are computed.
std::vector<Value> column_linear(Tape& tape, const Value& x, std::span<const Projection> projections,
                                 const TensorParallel& tp);

/// Returns the sum over the ranks of x w^T, plus bias. x is [R, D of this rank] and w is [N, D of this rank], divided
/// by inputs. bias[N] (null: no bias) is the same on all ranks and is added once. The result is [R, N] on all ranks or,
/// with sequence parallelism, this rank's rows [n, N]. With sequence parallelism, the gradient of the bias covers only
/// these rows and must be summed over the ranks.
Value row_linear(Tape& tape, const Value& x, Parameter& w, Parameter* bias, const TensorParallel& tp);

/// Transfers of one call of column_linear() or row_linear(), in forward and in backward.
struct LinearTransfers {
  std::vector<schedule::Transfer> forward, backward;
};
/// Returns the transfers of a call of column_linear() whose inputs are R = `rows` rows of `row_bytes` bytes. Assumes
/// that the weights and the input get gradients.
LinearTransfers transfers_of_column_linear(int64_t rows, int64_t row_bytes, const TensorParallel& tp);
/// Returns the transfers of a call of row_linear() whose results are R = `rows` rows of `row_bytes` bytes.
LinearTransfers transfers_of_row_linear(int64_t rows, int64_t row_bytes, const TensorParallel& tp);

}  // namespace hexad::tp
