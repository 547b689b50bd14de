// The exchanges of rows in a forward pass through MoE layers, before and after the experts.
#pragma once

#include "framework/schedule/timeline.h"

namespace hexad::plan {

struct ExchangeParts {
  schedule::Timeline dispatch;  // until the first computation begins
  schedule::Timeline combine;   // from the end of the last computation, which is its time 0
};

/// Returns the parts of a forward pass, measured or predicted. The pass must compute nothing but routed experts. Tasks
/// that extend beyond a part are cut at its border. Throws std::logic_error if the pass has no computation.
ExchangeParts exchange_parts(const schedule::Timeline& forward);

}  // namespace hexad::plan
