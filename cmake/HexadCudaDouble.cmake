# Sets whether tests run the CUDA backend on test doubles of NVIDIA's libraries. They do so in builds without CUDA, if
# the toolkit's headers exist.
find_package(CUDAToolkit 13.0 QUIET)
set(HEXAD_CUDA_DOUBLE OFF)
if(CUDAToolkit_FOUND AND EXISTS "${CUDAToolkit_INCLUDE_DIRS}/nccl.h" AND EXISTS "${CUDAToolkit_INCLUDE_DIRS}/cublasLt.h")
  set(HEXAD_CUDA_DOUBLE ON)
endif()
if(HEXAD_CUDA_DOUBLE)
  message(STATUS "CUDA's headers: tests run the CUDA backend on the double of a card")
else()
  message(STATUS "no CUDA 13 headers with NCCL's beside them: no tests of the CUDA backend on the double of a card")
endif()
