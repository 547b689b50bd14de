// Stages of training in a recipe document. Each stage is read as a separate recipe.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "framework/config/document.h"
#include "framework/config/problems.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Recipe document of a stage. The keys of the stage replace keys of the recipe, and train.steps is the sum of the
/// steps of all stages. Keys given on the command line outside `stages` override the keys of stages in a file. Each key
/// keeps its position, so problems name the line of the stage.
struct StageDocument {
  int64_t steps;  // number of steps of the stage
  config::Document document;
};

/// Returns a document for each stage; none if the recipe has no stages. Throws Error(usage) with every problem if
/// `stages` cannot be read or contradicts train.steps.
std::vector<StageDocument> stage_documents(const config::Document& document);

/// Returns the document of stage `number`, which counts from 1, as a recipe without stages. If `number` is 0 and there
/// are no stages, returns the document unchanged. Throws Error(usage) for any other number that names no stage.
config::Document document_of_stage(const config::Document& document, int64_t number);

/// Reads each stage by `read`, which adds the problems that it finds. Returns the recipe of the first stage with the
/// list of all stages. Throws Error(usage) with the problems of all stages. A problem names the stages that have it,
/// unless all stages have it.
Recipe read_stages(const std::vector<StageDocument>& stages,
                   const std::function<Recipe(const config::Document&, config::Problems&)>& read);

}  // namespace hexad::train
