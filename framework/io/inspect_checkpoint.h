// Output of `hexad inspect` for a checkpoint.
#pragma once

#include <string>

#include "framework/io/checkpoint_store.h"

namespace hexad::io {

/// Returns readable text: the position in the run, totals by kind, and a line per tensor.
std::string describe(const Checkpoint& checkpoint);
/// Like describe(), as one JSON object.
std::string describe_json(const Checkpoint& checkpoint);

/// Returns a line for each good checkpoint of a run, newest first, and the checkpoint from which the run would
/// continue.
std::string describe(const CheckpointStore::Scan& scan);
/// Returns the JSON object of the checkpoint from which the run would continue, with `good`, a list of folders, and
/// `bad`, a list of messages. If no checkpoint is good, the object has only these two lists.
std::string describe_json(const CheckpointStore::Scan& scan);

}  // namespace hexad::io
