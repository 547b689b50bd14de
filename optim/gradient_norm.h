// The global gradient norm.
#pragma once

#include "framework/autograd/parameter.h"
#include "parallel/mesh/mesh.h"

namespace hexad::optim {

using autograd::ParameterSet;
using device::Stream;
using tensor::Tensor;

/// Computes the sum of squares of all gradients that this rank counts (frozen parameters have none), and writes it to
/// out[1] (f64). Every element of the model is counted exactly once, in the shard of one rank. Therefore the sum over
/// ranks is bitwise identical for every level of ZeRO. Call it after the shards have been assigned (dp::BucketPlan) and
/// the reductions have finished.
void squared_gradient_norm(const Tensor& out, ParameterSet& parameters, const mesh::Mesh& mesh, Stream& stream);

}  // namespace hexad::optim
