// Recomputation: a segment of the forward pass saves only its inputs and is run again in backward.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "framework/autograd/tape.h"

namespace hexad::autograd {

/// A pure function of its inputs and of parameters. It records its ops on its first argument.
using Segment = std::function<std::vector<Value>(Tape&, std::span<const Value>)>;

/// Runs `segment` as one op called `name`, which saves only `inputs`. The backward pass of this op runs the segment
/// again (Tape::Mode::recompute) and replays it. Results and gradients are bitwise identical to a direct run of the
/// segment on `tape`. If `tape` does not record, runs the segment directly on `tape`. The characters of `name` must
/// outlive the tape.
std::vector<Value> checkpoint(Tape& tape, std::string_view name, std::span<const Value> inputs, const Segment& segment);

}  // namespace hexad::autograd
