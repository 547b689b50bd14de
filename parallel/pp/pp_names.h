// Names of lower libraries that the namespace `pp` uses without qualification. Headers of this folder include this file
// instead of declaring the names themselves.
#pragma once

#include "framework/autograd/tape.h"
#include "framework/base/dtype.h"
#include "framework/base/shape.h"
#include "framework/device/context.h"
#include "framework/device/meta/issue_log.h"
#include "framework/tensor/tensor.h"

namespace hexad::pp {

using autograd::GatheredWeights;
using autograd::GradientStorage;
using autograd::GradientTarget;
using autograd::Parameter;
using autograd::Replay;
using autograd::Tape;
using autograd::Value;
using autograd::WeightStorage;

using base::Dtype;
using base::Shape;

using device::Event;
using device::IssueLog;
using device::Stream;

using tensor::Tensor;

}  // namespace hexad::pp
