// Division of long transfers into pieces, and choice of the pairs of ranks that exchange messages in each round.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace hexad::comm::nccl {

struct Piece {
  int64_t begin, count;  // index of the first element, and number of elements
  bool operator==(const Piece&) const = default;
};
/// Divides `count` elements as evenly as possible into pieces of at most `most` elements. Returns one empty piece if
/// `count` is 0.
std::vector<Piece> pieces_of(int64_t count, int64_t most);

/// Returns part `part` of `count` elements that are divided as evenly as possible into `parts` parts.
Piece share_of(int64_t count, int part, int parts);

/// Returns the number of rounds that all pairs of `size` ranks need if a rank is in at most one pair per round.
int rounds_of(int size);
/// Returns the partner of `rank` in round `round`; nullopt if `rank` has no partner in this round. Each rank lacks a
/// partner in exactly one round if `size` is odd.
std::optional<int> partner_of(int rank, int round, int size);

}  // namespace hexad::comm::nccl
