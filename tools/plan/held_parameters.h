// The parameters that a rank holds, counted by hand from the recipe, without building the model.
#pragma once

#include <vector>

#include "tools/train/recipe.h"

namespace hexad::plan {

struct HeldParameters {
  int64_t elements = 0;
  int64_t sharers = 1;       // ranks that sum their gradient, this one included
  bool two_stages = false;   // some of these are at another pipeline stage (a tied embedding)
  bool expert = false;       // of the mesh's view of experts
  bool accumulator = false;  // kept in f32 (f64 in an f64 run) whatever the model's dtype: routers
  bool one_product = false;  // is a micro-batch's contribution to its gradient, which is rounded as it is written
};

/// Of rank `rank` of the layout, tensor by tensor, in the order in which the model makes them. For the built-in layers;
/// a registered `mlp` counts as nothing.
std::vector<HeldParameters> held_parameters(const train::Recipe& recipe, const mesh::Layout& layout, int rank);

/// Elements in the accumulator's dtype that are no parameters but lie with them: tables of angles, balancing biases.
int64_t held_states(const train::Recipe& recipe, const mesh::Layout& layout, int rank);

}  // namespace hexad::plan
