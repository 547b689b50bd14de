// This file compiles only with HEXAD_DEVICE_CODE (tests/tensor/CMakeLists.txt).
#include "framework/tensor/tensor.h"
#ifdef HEXAD_DEVICE_CODE
#include "framework/tensor/device_access.h"
#endif

namespace hexad::tests {

void* memory_of(const tensor::Tensor& t) {
#ifdef HEXAD_DEVICE_CODE
  return tensor::device_raw(t);
#else
  return t.device_raw();
#endif
}

}  // namespace hexad::tests
