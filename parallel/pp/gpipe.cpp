// GPipe (Huang et al. 2019): all forwards, then all backwards. A rank keeps the activations of every micro-batch.
#include "parallel/pp/program.h"

namespace hexad::pp {

std::vector<Action> gpipe(const Position& at) {
  Program p;
  repeat(at.micro_batches, [&] { p.forward(); });
  repeat(at.micro_batches, [&] { p.backward(); });
  return p.without_micro_batches_from(at.micro_batches);
}

}  // namespace hexad::pp
