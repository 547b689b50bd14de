// Connects ranks before the first step, for the communication of a model's layers.
#pragma once

#include <vector>

#include "layers/transformer.h"
#include "parallel/mesh/mesh.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Connects the ranks of each group for the operations that the layers of this rank's `parts` use in training. The
/// groups that reduce gradients, gather weights and sum a step's results are excluded, because other classes connect
/// them. All ranks connect the groups in the same order. Throws Error(resource) like ProcessGroup::connect().
/// Collective.
void connect_layers(const Recipe& recipe, const std::vector<layers::ModelPart>& parts, const mesh::Mesh& mesh,
                    device::Device device);

}  // namespace hexad::train
