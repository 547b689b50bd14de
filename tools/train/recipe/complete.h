// Fills in recipe settings that depend on the datasets and the machine, before the recipe is run.
#pragma once

#include <string>

#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Throws Error(data) if a dataset does not exist or cannot be read. Relative paths are relative to the working
/// directory. If a relative path does not exist, the message names the working directory. Users sometimes write a path
/// relative to the recipe's folder. If the path exists there, the message also names that path.
void require_datasets(const Recipe& recipe, const std::string& recipe_path);

/// Fills in settings that the recipe leaves open: heads and widths from other keys, the vocabulary from the data, and
/// train.threads from `cores`. `cores` is this rank's number of cores. Throws Error(usage) if model.vocab is 0 and an
/// index of Megatron-LM has no tokenizer next to it. Throws Error(data) if the tokenizer cannot be read.
void complete(Recipe& recipe, int64_t cores);

}  // namespace hexad::train
