// Description of a run in the manifest of its checkpoint: recipe, progress in its data, schedule, layout. Reading
// throws Error(data) with the place where a member is missing or of another type.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/digest.h"
#include "framework/io/checkpoint.h"
#include "tools/train/checkpoint/progress.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// `world`: number of ranks.
io::RunState saved_run(const Progress& progress, const Recipe& recipe, int64_t world);

/// The recipe as it was saved. Keys that an older program wrote have their present names.
config::Document saved_document(const io::Checkpoint& checkpoint);
/// The same as a struct. Throws Error(usage) where a value is not legal any more.
Recipe saved_recipe(const io::Checkpoint& checkpoint);
/// An older program saved no schedule.
Progress saved_progress(const io::Checkpoint& checkpoint);
/// Fingerprints of the training data that the checkpoint's run saw.
std::vector<data::Digest> saved_fingerprints(const io::Checkpoint& checkpoint);
/// data.shuffle of its run. An older program did not save it and shuffled `documents`.
std::string saved_shuffle(const io::Checkpoint& checkpoint);
/// Its layout in words, as describe() puts it.
std::string saved_layout(const io::Checkpoint& checkpoint);

}  // namespace hexad::train
