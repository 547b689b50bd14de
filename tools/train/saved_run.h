// What a checkpoint's manifest says of the run that wrote it: how far it is in its data, its schedule, its layout.
// Written and read here alone. Reading throws Error(data), with the place, where a member is missing or of another
// type.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/digest.h"
#include "framework/io/checkpoint.h"
#include "tools/train/progress.h"
#include "tools/train/recipe.h"

namespace hexad::train {

/// `world`: number of ranks.
io::RunState saved_run(const Progress& progress, const Recipe& recipe, int64_t world);

Progress saved_progress(const io::Checkpoint& checkpoint);
/// Fingerprints of the training data that the checkpoint's run saw.
std::vector<data::Digest> data_fingerprints(const io::Checkpoint& checkpoint);
/// The name of the order in which its run shuffled the data.
std::string saved_order(const io::Checkpoint& checkpoint);
/// Its layout in words, as describe() puts it.
std::string saved_layout(const io::Checkpoint& checkpoint);

}  // namespace hexad::train
