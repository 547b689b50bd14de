// Checks that replicas of weights on different ranks are bitwise identical.
#pragma once

#include "framework/autograd/parameter.h"
#include "parallel/mesh/mesh.h"

namespace hexad::train {

/// Compares hashes of each parameter's bytes among the ranks that hold the same piece of the parameter. If all hashes
/// agree, each rank sends only the hashes of its own parameters, in its groups. If hashes differ, rank 0 gathers the
/// hashes, and all ranks throw the same Error(numeric), which names the parameter and the ranks. Collective over all
/// ranks.
void check_replicas(const autograd::ParameterSet& parameters, const mesh::Mesh& mesh);

}  // namespace hexad::train
