#include "framework/autograd/parameter_storage.h"

#include "framework/autograd/parameter.h"

namespace hexad::autograd {

GatheredWeights ParameterStorage::gather_weights(Parameter&, Stream&) { return {}; }

void ParameterStorage::allocate_gradient(Parameter&) {}

GradientTarget ParameterStorage::only_contribution(Parameter& p) {
  const Tensor& g = p.gradient();
  return {g, p.next_write()};
}

}  // namespace hexad::autograd
