# Decides whether tests run the CUDA backend on test doubles of NVIDIA's libraries. They do so in builds without CUDA,
# if the toolkit's headers exist.
find_package(CUDAToolkit 13.0 QUIET)
set(HEXAD_CUDA_DOUBLE OFF)
if(CUDAToolkit_FOUND AND EXISTS "${CUDAToolkit_INCLUDE_DIRS}/nccl.h" AND EXISTS "${CUDAToolkit_INCLUDE_DIRS}/cublasLt.h")
  set(HEXAD_CUDA_DOUBLE ON)
endif()
if(HEXAD_CUDA_DOUBLE)
  message(STATUS "CUDA headers found: tests run the CUDA backend on a test double of the card")
else()
  message(STATUS "CUDA 13 headers with NCCL not found: no tests of the CUDA backend on a test double of the card")
endif()
