// Interleaved 1F1B (Narayanan et al. 2021, "Efficient large-scale language model training on GPU clusters", section
// 2.2). A rank has several virtual stages and alternates between them: in each turn, it runs `ranks` micro-batches of
// one virtual stage. With v virtual stages, the bubble is v times smaller, and v times as many messages are sent.
#include <algorithm>

#include "parallel/pp/program.h"

namespace hexad::pp {

std::vector<Action> interleaved(const Position& at) {
  // With a single virtual stage, there is nothing to interleave, and the rule below would start too many forwards.
  if (at.stages_a_rank == 1) return one_f_one_b(at);
  const int groups = (at.micro_batches + at.ranks - 1) / at.ranks;
  const int total = groups * at.ranks * at.stages_a_rank;
  // Number of forwards before this rank begins to alternate between a forward and a backward. It is `ranks` for each
  // virtual stage except the last one, plus two for each later rank, but at most `total`. The first gradient returns
  // while other micro-batches are in flight to the last rank.
  const int ahead = std::min(total, (at.stages_a_rank - 1) * at.ranks + 2 * at.after());
  const auto stage = [&](int i) { return i / at.ranks % at.stages_a_rank; };
  Program p;
  for (int i = 0; i < ahead; ++i) p.forward(stage(i));
  for (int i = 0; i < total; ++i) {
    if (ahead + i < total) p.forward(stage(ahead + i));
    p.backward(at.stages_a_rank - 1 - stage(i));
  }
  return p.without_micro_batches_from(at.micro_batches);
}

}  // namespace hexad::pp
