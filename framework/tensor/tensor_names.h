// Names of the libraries base and device that belong to the vocabulary of tensors. A source file with `using namespace
// tensor` can use all of these names.
#pragma once

#include "framework/base/dtype.h"
#include "framework/base/error.h"
#include "framework/base/shape.h"
#include "framework/device/context.h"

namespace hexad::tensor {

using base::cat;
using base::Dtype;
using base::dtype_of;
using base::fail_invariant;
using base::require;
using base::Shape;
using base::size_of;

using device::Category;
using device::Device;
using device::Stream;

}  // namespace hexad::tensor
