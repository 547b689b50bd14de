#include "parallel/comm/nccl/message_pieces.h"

namespace hexad::comm::nccl {

std::vector<Piece> pieces_of(int64_t count, int64_t most) {
  const int64_t parts = count == 0 ? 1 : (count + most - 1) / most;
  std::vector<Piece> pieces;
  for (int64_t p = 0, begin = 0; p < parts; ++p) {
    const int64_t end = count / parts * (p + 1) + count % parts * (p + 1) / parts;
    pieces.push_back({begin, end - begin});
    begin = end;
  }
  return pieces;
}

Piece share_of(int64_t count, int part, int parts) {
  const auto begin_of = [&](int64_t p) { return count / parts * p + count % parts * p / parts; };
  return {begin_of(part), begin_of(part + 1) - begin_of(part)};
}

// The rounds use the circle method for tournaments. One rank is in the middle of a circle of all other ranks, and
// parallel chords pair the ranks of the circle. The rank whose chord ends at the rank itself is paired with the rank in
// the middle. All ranks are on the circle if their number is odd; the rank without a chord then has no partner.
int rounds_of(int size) { return size % 2 == 0 ? size - 1 : size; }

std::optional<int> partner_of(int rank, int round, int size) {
  const int circle = rounds_of(size), middle = circle;
  if (rank == middle) {
    for (int r = 0; r < circle; ++r)
      if (2 * r % circle == round) return r;
  }
  const int other = (round - rank + circle) % circle;
  if (other != rank) return other;
  return size % 2 == 0 ? std::optional(middle) : std::nullopt;
}

}  // namespace hexad::comm::nccl
