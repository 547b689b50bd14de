// Pieces of a run's tensors that a rank holds, and whole tensors put together from all ranks.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/base/placement.h"
#include "parallel/comm/process_group.h"

namespace hexad::verify {

using base::Placement;
using base::Shape;
using tensor::Device;
using tensor::Tensor;

/// Elements [begin, begin + values.numel()), in row-major order, of a rectangle of the global tensor `name`.
struct Piece {
  std::string name;
  Shape global;
  Placement::Region region;
  int64_t begin;
  Tensor values;  // contiguous, on the host
  bool owned;     // of all ranks that hold these elements, this one speaks for them
};

/// Calls f(index in the global tensor, index in `piece.values`, count) for every run of elements that lie side by side
/// in both.
void for_each_run(const Piece& piece, const std::function<void(int64_t global, int64_t local, int64_t count)>& f);

/// Whole tensors by name.
using TensorMap = std::map<std::string, Tensor>;

/// Collective: on `host`, the tensors whose pieces the ranks own, the same on every rank; ranks need not hold the same
/// names. Throws std::logic_error naming a tensor that is not owned once as a whole.
TensorMap gather(const std::vector<Piece>& pieces, const comm::ProcessGroup& group, Device host);

}  // namespace hexad::verify
