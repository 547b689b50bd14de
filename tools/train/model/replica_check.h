// Check that ranks with the same weights hold the same bits.
#pragma once

#include "framework/autograd/parameter.h"
#include "parallel/mesh/mesh.h"

namespace hexad::train {

/// Compares hashes of each parameter's bytes among the ranks that hold the same piece of the parameter. Collective over
/// all ranks. If all agree, each rank communicates only in its groups, and about its own parameters. Throws
/// Error(numeric), the same on all ranks, with the parameter and the ranks that differ.
void check_replicas(const autograd::ParameterSet& parameters, const mesh::Mesh& mesh);

}  // namespace hexad::train
