// Cuts long transfers into pieces, and chooses the pairs of ranks that exchange messages in each round.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace hexad::comm::nccl {

struct Piece {
  int64_t begin, count;  // elements
  bool operator==(const Piece&) const = default;
};
/// Returns even parts of `count` elements, with at most `most` elements each. Returns one empty part if `count` is 0.
std::vector<Piece> pieces_of(int64_t count, int64_t most);

/// Returns part `part` of `count` elements that `parts` ranks share evenly.
Piece share_of(int64_t count, int part, int parts);

/// Returns the number of rounds in which all pairs of `size` ranks are matched, each rank in at most one pair per
/// round.
int rounds_of(int size);
/// Returns the partner of `rank` in `round`; none if `size` is odd and `rank` rests in this round.
std::optional<int> partner_of(int rank, int round, int size);

}  // namespace hexad::comm::nccl
