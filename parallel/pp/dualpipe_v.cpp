// DualPipe-V (DeepSeek 2025): half of DualPipe (DeepSeek-V3, section 3.2.1). A rank has one virtual stage in each arm
// of a V, instead of one per direction. In the steady state, a forward in one arm is merged with a backward in the
// other arm. The eight phases are the same as in the published figure. A rank keeps the activations of at most 2 x
// ranks + 1 virtual stages.
#include <algorithm>

#include "parallel/pp/program.h"

namespace hexad::pp {

std::vector<Action> dualpipe_v(const Position& at) {
  const int micro_batches = std::max(at.micro_batches, 2 * at.ranks), after = at.after(), before = at.rank + 1;
  Program p;
  repeat(2 * after, [&] { p.forward(0); });
  repeat(before, [&] { p.forward(0), p.forward(1); });
  repeat(after, [&] { p.backward_input(1), p.weights(), p.forward(1); });
  for (int i = 0; i < micro_batches - 2 * at.ranks + before; ++i) {
    // The first pair is not merged on the last rank, where the V turns, because all ranks wait for the results of both
    // actions.
    if (i == 0 && after == 0)
      p.forward(0), p.backward(1);
    else
      p.merged(0, 1);
    p.merged(1, 0);
  }
  repeat(after, [&] { p.backward(1), p.merged(1, 0); });
  // Delays weight gradients in the second half of this phase, so that they fill the idle time at the end.
  for (int i = 0; i < 2 * before; ++i) {
    const int arm = 1 - i % 2;
    if (i < before)
      p.backward(arm);
    else
      p.backward_input(arm);
  }
  repeat(after, [&] { p.weights(), p.backward_input(0); });
  repeat(before, [&] { p.weights(); });
  return p.without_micro_batches_from(at.micro_batches);
}

}  // namespace hexad::pp
