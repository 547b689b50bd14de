// Connects the groups of a mesh for the operations of a model's layers before the first step.
#pragma once

#include <vector>

#include "layers/transformer.h"
#include "parallel/mesh/mesh.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Connects the ranks of each group for the operations that the layers of this rank's `parts` use in training. Excludes
/// the groups that reduce gradients, gather weights and sum a step's results; their users connect them. Groups are
/// connected in the same order on all ranks. Collective. Throws Error(resource) like ProcessGroup::connect().
void connect_layers(const Recipe& recipe, const std::vector<layers::ModelPart>& parts, const mesh::Mesh& mesh,
                    device::Device device);

}  // namespace hexad::train
