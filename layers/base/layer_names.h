// Names of lower libraries that the namespace `layers` uses without qualification. Headers of layers include this file
// instead of declaring the names themselves.
#pragma once

#include "framework/autograd/tape.h"
#include "framework/base/dtype.h"
#include "framework/base/placement.h"
#include "framework/base/shape.h"
#include "framework/device/context.h"
#include "framework/tensor/tensor.h"

namespace hexad::layers {

using autograd::Init;
using autograd::Parameter;
using autograd::ParameterSet;
using autograd::Stack;
using autograd::Tape;
using autograd::Value;

using base::accumulator_dtype;
using base::Axis;
using base::Dtype;
using base::MeshView;
using base::Placement;
using base::Shape;

using device::Category;
using device::Device;
using device::Stream;

using tensor::Tensor;

}  // namespace hexad::layers
