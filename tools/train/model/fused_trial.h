// Trial of the fused products of SwiGLU experts, on tensors of a run's sizes. The trial is meant for a separate
// process.
#pragma once

#include <functional>
#include <string>

#include "framework/device/device_kind.h"
#include "framework/kernels/duel.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Sizes of the experts' products on a rank, and their device.
struct FusedShape {
  device::DeviceKind device;
  int place;                             // index of the rank on its node; chooses one of the node's GPUs
  base::Dtype dtype;                     // type of rows and weights
  int64_t rows, hidden, width, experts;  // rows of all experts, features of a row, width of an expert, experts
  int64_t threads = 1;                   // threads of kernels on a CPU
};

/// Returns the shape for a rank of the recipe. `rows` is the mean number of rows that a rank computes in a micro-batch,
/// and at least 1.
FusedShape fused_shape(const Recipe& recipe, int place);

/// Scores of the duels of both directions (moe::FusedDuels).
struct FusedScores {
  kernels::DuelScore forward, backward;
};

/// Runs duels on random rows of this shape, with several distributions of rows over experts, with and without routing
/// weights. Prints nothing. A crash or a hang of a candidate also crashes or hangs this process.
FusedScores try_fused(const FusedShape& shape);

/// Runs try_fused() in another process, which gets SIGTERM after `limit_seconds`. Returns the reason why the candidate
/// must not be used; empty if the candidate's results were correct in both directions. Must not throw.
using ProveFused = std::function<std::string(const FusedShape& shape, double limit_seconds)>;

}  // namespace hexad::train
