// Output of `hexad inspect` for a checkpoint.
#pragma once

#include <string>

#include "framework/io/checkpoint_store.h"

namespace hexad::io {

/// Returns human-readable text: the folder, the position in the run, the layout, the size and number of the shards,
/// totals by kind, and one line for each tensor.
std::string describe(const Checkpoint& checkpoint);
/// Returns the information of describe() and the generation as a JSON object.
std::string describe_json(const Checkpoint& checkpoint);

/// Returns one line for each good checkpoint of a run, newest first. The last line names the checkpoint from which
/// the run would continue with `checkpoint.resume: auto`, or says that there is no good checkpoint.
std::string describe(const CheckpointStore::Scan& scan);
/// Returns the JSON object of the checkpoint from which the run would continue. Two members are added: `good`, a list
/// of folders, and `bad`, a list of messages. The object has only these two members if no checkpoint is good.
std::string describe_json(const CheckpointStore::Scan& scan);

}  // namespace hexad::io
