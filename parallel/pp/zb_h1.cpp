// ZB-H1 (Qi et al. 2023, "Zero bubble pipeline parallelism", fig. 3): 1F1B whose backward is divided into input
// gradients and weight gradients. Rank r delays weight gradients by r micro-batches, so that the first input gradients
// are sent back early. The delayed weight gradients fill the idle time at the end. Every rank keeps the activations of
// at most `ranks` micro-batches, which is the peak of 1F1B.
#include <algorithm>

#include "parallel/pp/program.h"

namespace hexad::pp {

std::vector<Action> zb_h1(const Position& at) {
  const int ahead = std::min(at.after(), at.micro_batches);
  Program p;
  repeat(ahead, [&] { p.forward(); });
  for (int i = 0; i < at.micro_batches; ++i) {
    if (ahead + i < at.micro_batches) p.forward();
    p.backward_input();
    if (i >= at.rank) p.weights();
  }
  repeat(p.weights_left(), [&] { p.weights(); });
  return p.without_micro_batches_from(at.micro_batches);
}

}  // namespace hexad::pp
