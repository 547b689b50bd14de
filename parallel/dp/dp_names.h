// Names of lower libraries that the namespace `dp` uses without qualification. Headers of this folder include this file
// instead of declaring the names themselves.
#pragma once

#include "framework/autograd/parameter.h"
#include "framework/base/dtype.h"
#include "framework/base/flat_range.h"
#include "framework/base/shape.h"
#include "framework/device/context.h"
#include "framework/tensor/tensor.h"

namespace hexad::dp {

using autograd::GatheredWeights;
using autograd::GradientTarget;
using autograd::Parameter;
using autograd::ParameterSet;

using base::accumulator_dtype;
using base::Dtype;
using base::FlatRange;
using base::Shape;

using device::Device;
using device::Stream;

using tensor::Tensor;

}  // namespace hexad::dp
