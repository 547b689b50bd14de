// What `hexad inspect` shows of a checkpoint.
#pragma once

#include <string>

#include "framework/io/checkpoint.h"

namespace hexad::io {

/// For people: where the run stood, totals by kind, a line a tensor.
std::string describe(const Checkpoint& checkpoint);
/// The same as one JSON object.
std::string describe_json(const Checkpoint& checkpoint);

}  // namespace hexad::io
