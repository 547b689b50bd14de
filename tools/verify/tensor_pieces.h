// Pieces of a run's tensors on a rank, and whole tensors gathered from all ranks.
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
using device::Device;
using tensor::Tensor;

/// Elements [begin, begin + values.numel()), in row-major order, of a rectangle of the global tensor `name`.
struct Piece {
  std::string name;
  Shape global;
  Placement::Region region;
  int64_t begin;
  Tensor values;  // contiguous, on the host
  bool owned;     // true on one of the ranks that hold these elements
};

/// Calls f(index in the global tensor, index in `piece.values`, count) for every run of elements that are contiguous in
/// both.
void for_each_run(const Piece& piece, const std::function<void(int64_t global, int64_t local, int64_t count)>& f);

/// Whole tensors by name.
using TensorMap = std::map<std::string, Tensor>;

/// Gathers whole tensors from the pieces that the ranks own, on `host`. The result is the same on every rank. Ranks
/// need not hold the same names. Throws std::logic_error naming a tensor whose elements are not all owned exactly once.
/// Collective.
TensorMap gather(const std::vector<Piece>& pieces, const comm::ProcessGroup& group, Device host);

}  // namespace hexad::verify
