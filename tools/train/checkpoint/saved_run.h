// Description of a run in the manifest of a checkpoint: recipe, progress, schedule, layout. The functions that read the
// manifest throw Error(data) with the member's name if a member is missing or has another type.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/digest.h"
#include "framework/io/checkpoint.h"
#include "tools/train/model/progress.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Returns the description to be written to the manifest. `world` is the number of ranks. train.init_from becomes an
/// absolute path.
io::RunState saved_run(const Progress& progress, const Recipe& recipe, int64_t world);

/// Returns the recipe as it was saved, with the current names of keys.
config::Document saved_document(const io::Checkpoint& checkpoint);
/// Returns the saved recipe as a struct. Throws Error(usage) if a value is no longer legal.
Recipe saved_recipe(const io::Checkpoint& checkpoint);
/// Returns the saved progress. Texts that an older program did not write, such as the schedule, are empty.
Progress saved_progress(const io::Checkpoint& checkpoint);
/// Returns the fingerprints of the training data of the checkpoint's run.
std::vector<data::Digest> saved_fingerprints(const io::Checkpoint& checkpoint);
/// Returns the point from which the saved weights of data.mixture apply: the first sequence if the weights have not
/// changed during the run.
data::MixtureStart saved_mixture_start(const io::Checkpoint& checkpoint);
/// Returns data.shuffle of the checkpoint's run. If an older program wrote the checkpoint without this key, returns
/// `documents`, the order that older programs used.
std::string saved_shuffle(const io::Checkpoint& checkpoint);
/// Returns the layout of the checkpoint's run as text, in the format of describe(ParallelConfig). For an imported
/// model, returns "imported from FOLDER".
std::string saved_layout(const io::Checkpoint& checkpoint);

}  // namespace hexad::train
