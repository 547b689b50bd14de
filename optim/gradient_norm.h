// The global gradient norm.
#pragma once

#include "framework/autograd/parameter.h"
#include "parallel/mesh/mesh.h"

namespace hexad::optim {

using autograd::ParameterSet;
using device::Stream;
using tensor::Tensor;

/// Writes the sum of squares of the gradients that this rank counts to out[1] (f64). Exactly one rank counts each
/// element of the model, in its shard, which is the same for every level of ZeRO. Equal gradients therefore have
/// bitwise identical sums. Frozen parameters have no gradients. Call this function after the shards have been assigned
/// (dp::BucketPlan) and the reductions have finished.
void squared_gradient_norm(const Tensor& out, ParameterSet& parameters, const mesh::Mesh& mesh, Stream& stream);

}  // namespace hexad::optim
