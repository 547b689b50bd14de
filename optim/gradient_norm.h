// The global gradient norm.
#pragma once

#include "framework/autograd/parameter.h"
#include "parallel/mesh/mesh.h"

namespace hexad::optim {

using namespace autograd;

/// Square root of the sum of squares of all gradients of the model, in double, equal on all ranks: every parameter
/// counts exactly once, sharded ones over their shards, replicated ones once. Collective: ranks without a gradient
/// join.
double global_gradient_norm(ParameterSet& parameters, const mesh::Mesh& mesh, Stream& stream);

}  // namespace hexad::optim
