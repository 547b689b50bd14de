// The global gradient norm.
#pragma once

#include "framework/autograd/parameter.h"
#include "parallel/mesh/mesh.h"

namespace hexad::optim {

using autograd::ParameterSet;
using device::Stream;
using tensor::Tensor;

/// Writes to out[1] (f64) the sum of squares of the gradients that this rank counts. Exactly one rank counts each
/// element of the model: a rank whose shard contains the element (Parameter::counts). The shards are the same for every
/// level of ZeRO, so equal gradients have bitwise identical sums. Frozen parameters have no gradients. Call this
/// function after the shards have been assigned (dp::BucketPlan) and the reductions have finished.
void squared_gradient_norm(const Tensor& out, ParameterSet& parameters, const mesh::Mesh& mesh, Stream& stream);

}  // namespace hexad::optim
