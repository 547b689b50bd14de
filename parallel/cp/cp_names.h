// Names of lower libraries that the namespace `cp` uses without qualification. Headers of this folder include this file
// instead of declaring the names themselves.
#pragma once

#include "framework/autograd/tape.h"
#include "framework/base/dtype.h"
#include "framework/device/context.h"
#include "framework/tensor/tensor.h"

namespace hexad::cp {

using autograd::Parameter;
using autograd::Tape;
using autograd::Value;

using base::Dtype;

using device::Stream;

using tensor::Tensor;

}  // namespace hexad::cp
