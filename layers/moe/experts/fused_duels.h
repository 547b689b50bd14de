// Duels that decide schedule.moe.fused: auto.
#pragma once

#include "framework/kernels/duel.h"
#include "framework/kernels/sequence_kernels.h"

namespace hexad::moe {

/// Duels between separate kernel calls and one call (GroupedSwigluKernels). Each direction has its own winner.
struct FusedDuels {
  kernels::Duel forward;   // the experts' first product and their activation
  kernels::Duel backward;  // the gradients of the last product and of the activation

  kernels::Duel& of(kernels::Direction d) { return d == kernels::Direction::forward ? forward : backward; }
};

/// Choice between separate kernel calls and one call in a direction. One call requires Experts::can_fuse(), grouped
/// products, and no shadows. `fused` is ignored if `duel` is not null: Duel::contest() returns the results of separate
/// calls, and may also run the single call.
struct FusedChoice {
  bool fused = false;
  kernels::Duel* duel = nullptr;
};

}  // namespace hexad::moe
