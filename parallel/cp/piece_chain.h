// Messages between the ranks that have consecutive pieces of sequences.
#pragma once

#include <optional>
#include <vector>

#include "parallel/comm/process_group.h"
#include "parallel/cp/context_split.h"
#include "parallel/cp/cp_names.h"

namespace hexad::cp {

/// Direction in which tensors move along the pieces.
enum class Along : uint8_t { later, earlier };

/// Passes one tensor from each piece to the next piece in one direction. All ranks must use their chains in the same
/// order. A tensor that is passed must not be overwritten before finish().
class PieceChain {
 public:
  PieceChain(const ContextSplit& split, const comm::ProcessGroup& group, Along along, Stream& stream)
      : split_(split), group_(group), along_(along), stream_(stream) {}

  /// Returns the halves of this rank, in the direction of the chain.
  std::vector<int> halves() const;
  /// True if another piece passes a tensor to half `half`.
  bool has_source(int half) const { return neighbour(half, along_ == Along::later ? -1 : 1).has_value(); }
  /// Passes `t` from half `half` to the next piece, if there is one. Returns immediately.
  void pass_on(int half, const Tensor& t);
  /// Returns the tensor that half `half` gets, and makes the stream wait until it has arrived. `like` has the shape,
  /// dtype and device of this tensor. Requires has_source(half).
  Tensor take(int half, const Tensor& like);
  /// Makes the stream wait until all tensors have been sent.
  void finish();

 private:
  std::optional<int> neighbour(int half, int step) const;

  const ContextSplit split_;
  const comm::ProcessGroup& group_;
  const Along along_;
  Stream& stream_;
  Tensor own_;  // tensor that this rank passes to itself, because it has two consecutive pieces
  std::vector<device::Event> sent_;
};

}  // namespace hexad::cp
