// train.init_from may name a folder of the Hugging Face library. Its model is then imported into the run directory.
#pragma once

#include <string>
#include <vector>

#include "framework/base/file_work.h"
#include "parallel/comm/process_group.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// True if train.init_from is a folder with a config.json, and not a checkpoint.
bool starts_from_foreign_model(const Recipe& recipe);

/// Returns a warning for each key of `model` that differs from the model from which the run starts: the weights were
/// trained with other values. The other model is that of the config.json of train.init_from or, if there is none, of
/// the recipe in the checkpoint. Leaves out differences for which train.init_experts or train.init_vocabulary asks.
/// Empty if train.init_from is no checkpoint. Throws Error(data) if the config.json or the checkpoint is refused.
std::vector<std::string> cautions_of_start(const Recipe& recipe);

/// Returns the folder of the checkpoint with the initial weights. If train.init_from is a foreign model, rank 0 imports
/// it into run.dir/imported, unless an earlier start of the run has done so. If the import fails, all ranks throw
/// the Error of rank 0. Throws Error(data) if the model has changed since it was imported. Collective.
std::string start_folder(const Recipe& recipe, const comm::ProcessGroup& world, const base::FileWork& work);

}  // namespace hexad::train
