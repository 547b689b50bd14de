// Selects the rank that answers for what several ranks hold, in the global norm and in checkpoints.
#pragma once

#include "framework/autograd/parameter.h"
#include "parallel/mesh/mesh.h"

namespace hexad::dp {

using autograd::Parameter;

/// Groups of ranks that sum a parameter's gradient may hold the same piece (copies along tp, each with the whole
/// gradient): whether this rank's group is the first of them.
bool in_first_group(const Parameter& parameter, const mesh::Mesh& mesh);

/// True if this rank writes its part of the parameter into checkpoints: it is the first of all ranks that own the same
/// elements.
bool is_first_holder(const Parameter& parameter, const mesh::Mesh& mesh);

}  // namespace hexad::dp
