// 1F1B (Narayanan et al. 2019, "PipeDream"), in its synchronous form (2021, fig. 4 top). First, a rank runs one forward
// for each later rank. Then it alternates between a forward and a backward. Rank r keeps the activations of at most
// ranks - r micro-batches.
#include <algorithm>

#include "parallel/pp/program.h"

namespace hexad::pp {

std::vector<Action> one_f_one_b(const Position& at) {
  const int ahead = std::min(at.after(), at.micro_batches);
  Program p;
  repeat(ahead, [&] { p.forward(); });
  repeat(at.micro_batches - ahead, [&] { p.forward(), p.backward(); });
  repeat(ahead, [&] { p.backward(); });
  return p.without_micro_batches_from(at.micro_batches);
}

// 1F1B in merged pairs of a forward and a backward. Results are sent only at the end of a pair. Therefore a rank runs
// about twice as many forwards ahead as in 1F1B, so that it has both inputs when it begins a pair. The idle time is the
// same as in 1F1B. With one rank: F0, F1+B0, F2+B1, ..., B.
std::vector<Action> one_f_one_b_in_pairs(const Position& at) {
  const int ahead = std::min(2 * at.after() + 1, at.micro_batches);
  Program p;
  repeat(ahead, [&] { p.forward(); });
  repeat(at.micro_batches - ahead, [&] { p.merged(0, 0); });
  repeat(ahead, [&] { p.backward(); });
  return p.without_micro_batches_from(at.micro_batches);
}

}  // namespace hexad::pp
