// Splits the document of a recipe with stages into one document for each stage. Each of these documents is then read
// like a recipe.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "framework/config/document.h"
#include "framework/config/problems.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Recipe document of a stage. The keys of the stage replace keys of the recipe, and train.steps is the sum of the
/// steps of all stages. An override on the command line, such as batch.micro=2, also overrides this key in stages. Each
/// key keeps its position in the file, so problems name the line of the stage.
struct StageDocument {
  int64_t steps;  // number of steps of the stage
  config::Document document;
};

/// Returns a document for each stage; none if the recipe has no stages. Throws Error(usage) with every problem if
/// `stages` cannot be read or contradicts train.steps.
std::vector<StageDocument> stage_documents(const config::Document& document);

/// Returns the document of stage `number`, counted from 1, as a recipe without stages. For a recipe without stages,
/// `number` must be 0, and the document is returned unchanged. Throws Error(usage) if there is no such stage.
config::Document document_of_stage(const config::Document& document, int64_t number);

/// Calls `read` for each stage; `read` adds the problems that it finds. Returns the recipe of the first stage with the
/// list of all stages. Throws Error(usage) with the problems of all stages. If only some stages have a problem, its
/// message names these stages.
Recipe read_stages(const std::vector<StageDocument>& stages,
                   const std::function<Recipe(const config::Document&, config::Problems&)>& read);

}  // namespace hexad::train
