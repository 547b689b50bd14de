// In which order a rank sends the rows that its tokens' slots ask for, and how they are cut into chunks.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/tensor/tensor.h"

namespace hexad::ep {

using namespace tensor;

/// Chunks of rows are sent, computed and returned one after another. A pure function of a slot's token and expert
/// decides which chunk it belongs to: so ranks agree without asking each other.
struct Cutting {
  /// tokens: consecutive tokens, as equal in number as possible (MPMoE). peers: by the distance of the expert's rank in
  /// the ring of ranks (FasterMoE's groups of workers; with as many chunks as ranks, Parm's phases). experts:
  /// consecutive experts of each rank (EPS-MoE).
  enum class By : uint8_t { tokens, peers, experts };
  By by = By::tokens;
  int chunks = 1;

  /// Throws std::logic_error for a cut that makes no sense for these experts and ranks.
  void check(int64_t experts, int ranks) const;
  int chunk(int64_t token, int64_t tokens, int64_t expert, int64_t local_experts, int rank, int ranks) const;
};

/// The kept slots of a rank as rows, sorted by chunk, expert, token, slot: so results are deterministic, and what goes
/// to one rank in one chunk lies together.
struct SlotOrder {
  int64_t experts = 0;
  std::vector<int64_t> counts;  // [chunks, experts]
  Tensor tokens;                // [S] i64: token of each row
  Tensor rows;                  // [T, K] i64: row of each slot; -1: dropped

  int64_t size() const { return tokens.dim(0); }
};

/// ids: [T, K] i32, entries in [0, experts) or -1 for a dropped slot, of rank `rank` among the `ranks` over which the
/// experts lie in equal blocks.
SlotOrder order_slots(const Tensor& ids, int64_t experts, const Cutting& cutting, int rank, int ranks);

}  // namespace hexad::ep
