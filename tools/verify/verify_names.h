// Names of lower libraries that the namespace `verify` uses without qualification. Headers of this folder include this
// file instead of declaring the names themselves.
#pragma once

#include "framework/autograd/parameter.h"
#include "framework/base/placement.h"
#include "framework/base/shape.h"
#include "framework/device/context.h"
#include "framework/tensor/tensor.h"
#include "tools/train/model/evaluation.h"
#include "tools/train/model/model_instance.h"
#include "tools/train/model/progress.h"
#include "tools/train/model/train_step.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::verify {

using autograd::Parameter;

using base::Axis;
using base::Placement;
using base::Shape;

using device::Device;
using device::Stream;

using tensor::Tensor;

using train::Evaluation;
using train::Extensions;
using train::ModelInstance;
using train::Progress;
using train::Recipe;
using train::StepResult;
using train::TrainStep;

}  // namespace hexad::verify
