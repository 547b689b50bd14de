// The command `hexad bench fused`, and its use as a child process of training.
#pragma once

#include "tools/hexad/commands/command.h"
#include "tools/train/model/fused_trial.h"

namespace hexad::app {

/// Adds the command `fused` to `bench`.
void add_bench_fused(const Command& bench);

/// Runs the command in a child process of this program, for at most `limit_seconds`. Returns an empty text if the
/// process succeeds, otherwise the reason of the failure. See train::ProveFused.
std::string prove_fused_in_child(const train::FusedShape& shape, double limit_seconds);

}  // namespace hexad::app
