// Stubs of the cuBLASLt functions that the program calls. The first call of a stub loads the library. The library is
// therefore needed only on machines with a card. The stubs have hidden visibility, because cuBLASLt must call its own
// functions, not the stubs.
#include <cublasLt.h>

#include "framework/device/cuda/shared_library.h"

namespace {

const hexad::device::cuda::SharedLibrary& library() {
  static const hexad::device::cuda::SharedLibrary loaded("libcublasLt.so.13");
  return loaded;
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static const auto real = library().function<decltype(cublasLtCreate)>("cublasLtCreate");
  return real(handle);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  static const auto real = library().function<decltype(cublasLtDestroy)>("cublasLtDestroy");
  return real(handle);
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  static const auto real = library().function<decltype(cublasLtGetStatusString)>("cublasLtGetStatusString");
  return real(status);
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t stride) {
  static const auto real =
      library().function<decltype(cublasLtMatrixLayoutInit_internal)>("cublasLtMatrixLayoutInit_internal");
  return real(layout, size, type, rows, columns, stride);
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t product, size_t size, cublasComputeType_t compute,
                                               cudaDataType_t scale) {
  static const auto real =
      library().function<decltype(cublasLtMatmulDescInit_internal)>("cublasLtMatmulDescInit_internal");
  return real(product, size, compute, scale);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t size) {
  static const auto real =
      library().function<decltype(cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute");
  return real(product, attribute, value, size);
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t size) {
  static const auto real =
      library().function<decltype(cublasLtMatmulPreferenceInit_internal)>("cublasLtMatmulPreferenceInit_internal");
  return real(preference, size);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t size) {
  static const auto real =
      library().function<decltype(cublasLtMatmulPreferenceSetAttribute)>("cublasLtMatmulPreferenceSetAttribute");
  return real(preference, attribute, value, size);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  static const auto real =
      library().function<decltype(cublasLtMatmulAlgoGetHeuristic)>("cublasLtMatmulAlgoGetHeuristic");
  return real(handle, product, a, b, c, d, preference, wanted, results, found);
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result) {
  static const auto real = library().function<decltype(cublasLtMatmulAlgoCheck)>("cublasLtMatmulAlgoCheck");
  return real(handle, product, a, b, c, d, algorithm, result);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_size, cudaStream_t stream) {
  static const auto real = library().function<decltype(cublasLtMatmul)>("cublasLtMatmul");
  return real(handle, product, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm, workspace,
              workspace_size, stream);
}
