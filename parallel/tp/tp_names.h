// Names of lower libraries that the namespace `tp` uses without qualification. Headers of this folder include this file
// instead of declaring the names themselves.
#pragma once

#include "framework/autograd/ops/ops.h"
#include "framework/base/dtype.h"
#include "framework/base/error.h"
#include "framework/base/shape.h"
#include "framework/device/context.h"
#include "framework/tensor/tensor.h"
#include "parallel/comm/process_group.h"

namespace hexad::tp {

using autograd::CrossEntropyOptions;
using autograd::Parameter;
using autograd::Tape;
using autograd::Value;

using base::Dtype;
using base::require;
using base::Shape;

using comm::ProcessGroup;

using device::Device;
using device::Event;
using device::Stream;

using tensor::Tensor;

}  // namespace hexad::tp
