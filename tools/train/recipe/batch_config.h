// The recipe's section `batch`.
#pragma once

#include <cstdint>

#include "framework/config/constraints.h"

namespace hexad::train {

struct BatchConfig {
  int64_t global = 8;
  int64_t micro = 4;

  template <class V>
  void fields(V& v) {
    v("global", global, "sequences in an optimizer step, over all ranks", config::at_least(1),
      config::at_most(1 << 30));
    v("micro", micro,
      "sequences that a rank computes at a time; this number changes results if model.moe.aux_loss.scope "
      "or model.moe.capacity_scope is micro_batch",
      config::at_least(1));
  }
};

}  // namespace hexad::train
