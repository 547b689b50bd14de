// Recomputation: a part of the forward pass keeps only its inputs and runs again in backward.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "framework/autograd/tape.h"

namespace hexad::autograd {

/// A pure function of its inputs and of parameters. The function records its ops on the tape that it receives.
using Segment = std::function<std::vector<Value>(Tape&, std::span<const Value>)>;

/// Runs `segment` as one op called `name`, which keeps only `inputs`. Its backward runs the segment again
/// (Tape::Mode::recompute) and replays it. The result is bitwise equal to running `segment` on `tape` directly.
std::vector<Value> checkpoint(Tape& tape, std::string_view name, std::span<const Value> inputs, const Segment& segment);

}  // namespace hexad::autograd
