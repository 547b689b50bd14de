// Options common to the operations of this folder: the ranks over which features are split, and the split of rows.
#pragma once

#include "framework/autograd/ops/ops.h"
#include "parallel/comm/process_group.h"

namespace hexad::tp {

using base::require;

using comm::ProcessGroup;
using device::Event;

/// Split of a layer. The group outlives every tape that uses it. With one rank, operations are the plain autograd ops:
/// no additional node, no copy.
struct TensorParallel {
  const ProcessGroup* group;
  /// Sequence parallelism (Korthikanti et al. 2022): between products each rank holds its share of the rows.
  bool sequence = false;
};

/// Returns the number of rows per rank of `group` if `rows` are cut evenly: rank r holds rows [r n, (r + 1) n). Throws
/// std::logic_error, with the arithmetic, if they cannot be cut evenly.
inline int64_t rows_per_rank(std::string_view op, int64_t rows, const ProcessGroup& group) {
  const int64_t size = group.size(), share = rows / size;
  require(rows % size == 0, "[", op, "] ", rows, " rows cannot be cut evenly over the ", size, " ranks of ",
          group.name(), ": ", rows, " = ", share, " * ", size, " + ", rows % size, "; nearest: ", share * size, ", ",
          (share + 1) * size);
  return share;
}

}  // namespace hexad::tp
