// Starts training from a model in the format of the Hugging Face library. If train.init_from is the folder of such a
// model, the model is imported into the run directory.
#pragma once

#include <string>
#include <vector>

#include "framework/base/file_work.h"
#include "parallel/comm/process_group.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// True if train.init_from is a Hugging Face model: a folder that has a config.json and is not a checkpoint.
bool starts_from_foreign_model(const Recipe& recipe);

/// Returns a warning for each key of `model` whose value differs from the value with which the initial weights were
/// trained. If train.init_from is or was imported from a Hugging Face model, reads these values from the config.json of
/// this model. Otherwise, reads them from the recipe in the checkpoint. Ignores prediction blocks, and differences that
/// train.init_experts or train.init_vocabulary requests. Returns no warnings if train.init_from is neither such a model
/// nor a checkpoint. Throws Error(data) if the config.json or the checkpoint cannot be used.
std::vector<std::string> cautions_of_start(const Recipe& recipe);

/// Throws Error(data) if run.dir/imported is the import of a model other than train.init_from, or if the model has
/// changed since its import. start_folder() throws the same errors. Does nothing if there is no import.
void require_same_import(const Recipe& recipe);

/// Returns the folder of the checkpoint with the initial weights. Rank 0 imports a Hugging Face model in
/// train.init_from into run.dir/imported if no earlier start of the run has done so. If the import fails, all ranks
/// throw the Error of rank 0. Throws Error(data) if the earlier import is of another model, or if the model has changed
/// since that import. Collective.
std::string start_folder(const Recipe& recipe, const comm::ProcessGroup& world, const base::FileWork& work);

}  // namespace hexad::train
