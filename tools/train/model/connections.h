// Operations that the groups of a mesh do in the layers of a model, so that ranks are connected before they are needed.
#pragma once

#include <vector>

#include "layers/transformer.h"
#include "parallel/mesh/mesh.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Connects the ranks of each group for the operations that the layers of this rank's `parts` do in training.
/// (Gradients and weights of replicas, and the step's sums, connect their own groups.) Groups are connected in one
/// order on all ranks. Collective. Throws Error(resource) like ProcessGroup::connect().
void connect_layers(const Recipe& recipe, const std::vector<layers::ModelPart>& parts, const mesh::Mesh& mesh,
                    device::Device device);

}  // namespace hexad::train
