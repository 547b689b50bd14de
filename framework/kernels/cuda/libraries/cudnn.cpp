// Stubs of the cuDNN functions that the program calls. The first call of a stub loads the library. The library is
// therefore needed only on machines with a card. The stubs have hidden visibility, because cuDNN must call its own
// functions, not the stubs.
#include <cudnn.h>

#include "framework/device/cuda/shared_library.h"

namespace {

const hexad::device::cuda::SharedLibrary& library() {
  static const hexad::device::cuda::SharedLibrary loaded("libcudnn.so.9");
  return loaded;
}

}  // namespace

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  static const auto real = library().function<decltype(cudnnCreate)>("cudnnCreate");
  return real(handle);
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  static const auto real = library().function<decltype(cudnnDestroy)>("cudnnDestroy");
  return real(handle);
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  static const auto real = library().function<decltype(cudnnSetStream)>("cudnnSetStream");
  return real(handle, stream);
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  static const auto real = library().function<decltype(cudnnGetStream)>("cudnnGetStream");
  return real(handle, stream);
}

size_t cudnnGetVersion() {
  static const auto real = library().function<decltype(cudnnGetVersion)>("cudnnGetVersion");
  return real();
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  static const auto real = library().function<decltype(cudnnGetErrorString)>("cudnnGetErrorString");
  return real(status);
}

void cudnnGetLastErrorString(char* message, size_t size) {
  static const auto real = library().function<decltype(cudnnGetLastErrorString)>("cudnnGetLastErrorString");
  real(message, size);
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  static const auto real = library().function<decltype(cudnnBackendCreateDescriptor)>("cudnnBackendCreateDescriptor");
  return real(type, descriptor);
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  static const auto real = library().function<decltype(cudnnBackendDestroyDescriptor)>("cudnnBackendDestroyDescriptor");
  return real(descriptor);
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* elements) {
  static const auto real = library().function<decltype(cudnnBackendSetAttribute)>("cudnnBackendSetAttribute");
  return real(descriptor, name, type, count, elements);
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted, int64_t* count,
                                       void* elements) {
  static const auto real = library().function<decltype(cudnnBackendGetAttribute)>("cudnnBackendGetAttribute");
  return real(descriptor, name, type, wanted, count, elements);
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  static const auto real = library().function<decltype(cudnnBackendFinalize)>("cudnnBackendFinalize");
  return real(descriptor);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variant_pack) {
  static const auto real = library().function<decltype(cudnnBackendExecute)>("cudnnBackendExecute");
  return real(handle, plan, variant_pack);
}
