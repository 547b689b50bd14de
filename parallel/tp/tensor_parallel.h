// Options of ops in this folder: the ranks among which features are divided, and the division of rows.
#pragma once

#include "framework/autograd/ops/ops.h"
#include "parallel/comm/process_group.h"
#include "parallel/tp/tp_names.h"

namespace hexad::tp {

/// Division of a layer among tensor-parallel ranks. The group must outlive every tape that uses it. With a single rank,
/// the ops are the plain autograd ops, without additional nodes or copies.
struct TensorParallel {
  const ProcessGroup* group;
  /// Sequence parallelism (Korthikanti et al. 2022): between matrix products, each rank has an equal part of the rows.
  bool sequence = false;
};

/// Returns n = rows / group.size(), the number of rows of each rank. The rows of rank r begin with row r * n. Throws
/// std::logic_error with the arithmetic if the rows cannot be divided evenly.
inline int64_t rows_per_rank(std::string_view op, int64_t rows, const ProcessGroup& group) {
  const int64_t size = group.size(), share = rows / size;
  require(rows % size == 0, "[", op, "] ", rows, " rows cannot be divided evenly among the ", size, " ranks of ",
          group.name(), ": ", rows, " = ", share, " * ", size, " + ", rows % size, "; nearest: ", share * size, ", ",
          (share + 1) * size);
  return share;
}

}  // namespace hexad::tp
