// Output of `hexad inspect` for a checkpoint.
#pragma once

#include <string>

#include "framework/io/checkpoint_store.h"

namespace hexad::io {

/// For people: where the run stood, totals by kind, a line a tensor.
std::string describe(const Checkpoint& checkpoint);
/// The same as one JSON object.
std::string describe_json(const Checkpoint& checkpoint);

/// A line for each good checkpoint of a run, newest first, and from which one the run would continue.
std::string describe(const CheckpointStore::Scan& scan);
/// The JSON object of that one with `good`, a list of folders, and `bad`, one of messages; where none is good, these
/// alone.
std::string describe_json(const CheckpointStore::Scan& scan);

}  // namespace hexad::io
