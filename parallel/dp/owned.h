// Selects one of the ranks that hold the same elements, for the global norm and for checkpoints.
#pragma once

#include "framework/autograd/parameter.h"
#include "parallel/mesh/mesh.h"

namespace hexad::dp {

using autograd::Parameter;

/// True if this rank's group is the first of the groups that hold the same piece. Several groups that sum a parameter's
/// gradient may hold the piece: copies along tp, each with the whole gradient.
bool in_first_group(const Parameter& parameter, const mesh::Mesh& mesh);

/// True if this rank writes its part of the parameter into checkpoints, as the first of all ranks that own the same
/// elements.
bool is_first_holder(const Parameter& parameter, const mesh::Mesh& mesh);

}  // namespace hexad::dp
