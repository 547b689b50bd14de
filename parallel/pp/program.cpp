#include "parallel/pp/program.h"

#include <algorithm>

#include "framework/base/counted.h"
#include "framework/base/error.h"

namespace hexad::pp {

void Program::weights(std::deque<Action>::iterator which) {
  base::require(
      which != left_.end(), "[pp] action ", actions_.size(),
      " of a schedule computes weight gradients, but no earlier backward of the virtual stage has delayed any; "
      "expected an earlier backward that delays them");
  actions_.push_back({Kind::backward_weight, which->local_stage, which->micro});
  left_.erase(which);
}

void Program::weights() { weights(left_.begin()); }

void Program::weights(int local_stage) {
  weights(std::find_if(left_.begin(), left_.end(), [&](const Action& a) { return a.local_stage == local_stage; }));
}

std::vector<Action> Program::without_micro_batches_from(int micro_batches) const {
  base::require(left_.empty(), "[pp] a schedule never computes the delayed weight gradients of ",
                base::counted(std::ssize(left_), "backward"),
                "; expected an action for the weight gradients of each backward");
  std::vector<Action> kept;
  // The forward of a merged pair is never kept without its backward, because the backward belongs to an earlier
  // micro-batch.
  std::copy_if(actions_.begin(), actions_.end(), std::back_inserter(kept),
               [&](const Action& a) { return a.micro < micro_batches; });
  return kept;
}

}  // namespace hexad::pp
