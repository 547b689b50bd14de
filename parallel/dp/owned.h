// Choice of one rank among all ranks that have the same elements, for the global norm and for checkpoints.
#pragma once

#include "framework/autograd/parameter.h"
#include "parallel/dp/dp_names.h"
#include "parallel/mesh/mesh.h"

namespace hexad::dp {

/// True if this rank's reduction group is the first of the groups that have the same piece of the parameter. There may
/// be several groups, because tp ranks with copies of a parameter each have the whole gradient.
bool in_first_group(const Parameter& parameter, const mesh::Mesh& mesh);

/// True if this rank is the first of the ranks that own the same elements of the parameter. The first rank writes the
/// elements to checkpoints.
bool is_first_holder(const Parameter& parameter, const mesh::Mesh& mesh);

}  // namespace hexad::dp
