// Names of the framework that the namespace `tests` uses without qualification. Headers of tests include this file
// instead of declaring the names themselves.
#pragma once

#include "framework/autograd/tape.h"
#include "framework/base/dtype.h"
#include "framework/base/placement.h"
#include "framework/base/shape.h"
#include "framework/device/context.h"
#include "framework/tensor/tensor.h"

namespace hexad::tests {

using autograd::keep_policy;
using autograd::Parameter;
using autograd::ParameterSet;
using autograd::Replay;
using autograd::SavePolicy;
using autograd::Tape;
using autograd::Value;

using base::Axis;
using base::Dtype;
using base::Placement;
using base::Shape;

using device::Category;
using device::Stream;

using tensor::Tensor;

}  // namespace hexad::tests
