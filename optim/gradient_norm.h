// The global gradient norm.
#pragma once

#include "framework/autograd/parameter.h"
#include "parallel/mesh/mesh.h"

namespace hexad::optim {

using namespace autograd;

/// Square root of the sum of squares of all gradients of the model, in double, equal on all ranks: every element counts
/// exactly once, in the share of one rank. So it has the same bits whatever ZeRO leaves of the gradients on a rank.
/// Collective: ranks without a gradient join. Shares must have been dealt (dp::BucketPlan) and reductions be finished.
double global_gradient_norm(ParameterSet& parameters, const mesh::Mesh& mesh, Stream& stream);

}  // namespace hexad::optim
