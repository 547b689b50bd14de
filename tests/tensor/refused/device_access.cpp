// This file compiles only with HEXAD_DEVICE_CODE (tests/tensor/CMakeLists.txt).
#include "framework/tensor/device_access.h"

namespace hexad::tests {

float first_of(const tensor::Tensor& t) { return *tensor::device_data<float>(t); }

}  // namespace hexad::tests
