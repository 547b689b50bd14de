// Cuts long transfers, and pairs the ranks that exchange messages at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace hexad::comm::nccl {

struct Piece {
  int64_t begin, count;  // elements
  bool operator==(const Piece&) const = default;
};
/// Even parts of `count` elements, of at most `most` each; one empty part where there is nothing.
std::vector<Piece> pieces_of(int64_t count, int64_t most);

/// Part `part` of `count` elements that `parts` ranks share evenly.
Piece share_of(int64_t count, int part, int parts);

/// Number of rounds in which all pairs of `size` ranks meet, each rank in at most one pair per round.
int rounds_of(int size);
/// Rank that `rank` meets in `round`; none if `size` is odd and it is its turn to rest.
std::optional<int> partner_of(int rank, int round, int size);

}  // namespace hexad::comm::nccl
