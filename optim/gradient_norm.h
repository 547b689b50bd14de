// The global gradient norm.
#pragma once

#include "framework/autograd/parameter.h"
#include "parallel/mesh/mesh.h"

namespace hexad::optim {

using autograd::ParameterSet;
using device::Stream;
using tensor::Tensor;

/// out[1] (f64) = the sum of squares of the gradients that count on this rank: every element of the model counts
/// exactly once, in the share of one rank, so that the sum over ranks has the same bits whatever ZeRO leaves of the
/// gradients on a rank. Shares must have been assigned (dp::BucketPlan) and reductions be finished.
void squared_gradient_norm(const Tensor& out, ParameterSet& parameters, const mesh::Mesh& mesh, Stream& stream);

}  // namespace hexad::optim
