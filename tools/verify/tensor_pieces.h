// Pieces of tensors that a rank holds, and whole tensors gathered from the pieces of all ranks.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/base/placement.h"
#include "parallel/comm/process_group.h"
#include "tools/verify/verify_names.h"

namespace hexad::verify {

/// A part of the global tensor `name`: the elements of the rectangle `region` from index `begin` on, in row-major
/// order.
struct Piece {
  std::string name;
  Shape global;
  Placement::Region region;
  int64_t begin;
  Tensor values;  // contiguous, on the host
  bool owned;     // true on exactly one of the ranks that hold these elements
};

/// Divides the piece into the longest runs that are contiguous both in the global tensor and in `piece.values`. Calls
/// f(global, local, count) for each run of `count` elements. The run begins at index `global` of the tensor and at
/// index `local` of the values.
void for_each_run(const Piece& piece, const std::function<void(int64_t global, int64_t local, int64_t count)>& f);

/// Whole tensors by name.
using TensorMap = std::map<std::string, Tensor>;

/// Gathers whole tensors from the pieces that the ranks own, in the memory of `host`. The result is the same on every
/// rank. Ranks may have pieces of different tensors. Throws std::logic_error with a tensor's name if an element has no
/// owner or two owners. Also throws it if two ranks disagree about the tensor's shape or dtype. Collective.
TensorMap gather(const std::vector<Piece>& pieces, const comm::ProcessGroup& group, Device host);

}  // namespace hexad::verify
