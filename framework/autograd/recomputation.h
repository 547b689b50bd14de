// Recomputation: a part of the forward pass keeps its inputs only and runs again in backward.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "framework/autograd/tape.h"

namespace hexad::autograd {

/// A pure function of its inputs (and of parameters), recording on the tape it is given.
using Segment = std::function<std::vector<Value>(Tape&, std::span<const Value>)>;

/// Runs `segment` without keeping anything but `inputs`, as one op called `name`; its backward runs the segment again
/// (Tape::Mode::recompute) and replays it. Bitwise equal to running `segment` on `tape` directly.
std::vector<Value> checkpoint(Tape& tape, std::string_view name, std::span<const Value> inputs, const Segment& segment);

}  // namespace hexad::autograd
