// Names of lower libraries, and of `layers`, that the namespace `moe` uses without qualification. Headers of layers/moe
// include this file instead of declaring the names themselves.
#pragma once

#include "framework/autograd/tape.h"
#include "framework/base/dtype.h"
#include "framework/device/context.h"
#include "framework/kernels/kernel_table.h"
#include "framework/tensor/tensor.h"
#include "layers/base/builder.h"
#include "layers/base/micro_batch.h"
#include "layers/base/model_config.h"

namespace hexad::moe {

using autograd::HeldWeight;
using autograd::Parameter;
using autograd::Tape;
using autograd::Value;

using base::Dtype;
using base::size_of;

using device::Category;
using device::Device;
using device::Stream;

using kernels::GeluKind;
using kernels::kernels_of;

using layers::Builder;
using layers::ForwardContext;
using layers::ModelConfig;

using tensor::Tensor;

}  // namespace hexad::moe
