// ZB-V (Qi et al. 2023, "Zero bubble pipeline parallelism", section 6): two virtual stages per rank, placed in a V. A
// forward ends on the rank where it began. This rank can therefore start the first backward immediately. A rank never
// waits after its first action if forward, input gradient and weight gradient take the same time. A rank keeps the
// activations of at most 2 x ranks virtual stages, which need as much memory as the activations in 1F1B.
#include <algorithm>

#include "parallel/pp/program.h"

namespace hexad::pp {

std::vector<Action> zb_v(const Position& at) {
  const int micro_batches = std::max(at.micro_batches, 2 * at.ranks - 1);
  const auto way_back = [](Program& p) { p.forward(1), p.backward_input(1), p.weights(1); };
  Program p;
  // Runs forwards of local stage 0 until the first micro-batch has returned to this rank.
  repeat(2 * at.after() + 1, [&] { p.forward(0); });
  repeat(at.rank, [&] { p.forward(1), p.forward(0); });
  // Computes gradients of local stage 1 while the first gradient for local stage 0 is in flight to this rank.
  repeat(at.after() + 1, [&] { way_back(p); });
  for (int i = 0; i < micro_batches - at.ranks; ++i) {
    if (2 * at.ranks - 1 - at.rank + i < micro_batches) p.forward(0);
    p.backward_input(0), p.weights(0);
    way_back(p);
  }
  // Computes input gradients first, because other ranks wait for them. Weight gradients fill the idle time at the end.
  repeat(at.rank, [&] { p.backward_input(0), p.backward_input(1); });
  repeat(at.after() + 1, [&] { p.backward_input(0), p.weights(0); });
  repeat(at.rank, [&] { p.weights(1); });
  repeat(at.rank, [&] { p.weights(0); });
  return p.without_micro_batches_from(at.micro_batches);
}

}  // namespace hexad::pp
