// The exchanges of rows in a forward pass through one MoE layer, before and after the experts.
#pragma once

#include "framework/schedule/timeline.h"

namespace hexad::plan {

struct ExchangeParts {
  schedule::Timeline dispatch;  // tasks before the first computation begins
  schedule::Timeline combine;   // tasks after the end of the last computation, which is time 0
};

/// Returns the tasks of a measured or predicted forward pass before and after its computations. The pass must compute
/// nothing but routed experts. A task that overlaps computations is cut at the start of the first or at the end of the
/// last computation. Throws std::logic_error if the pass has no computation.
ExchangeParts exchange_parts(const schedule::Timeline& forward);

}  // namespace hexad::plan
