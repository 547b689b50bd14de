# Sets HEXAD_CUDA_DOUBLE: ON if the headers of CUDA 13, NCCL and cuBLASLt are installed. Tests then run the CUDA backend
# on test doubles of NVIDIA's libraries, in builds without CUDA.
find_package(CUDAToolkit 13.0 QUIET)
set(HEXAD_CUDA_DOUBLE OFF)
if(CUDAToolkit_FOUND AND EXISTS "${CUDAToolkit_INCLUDE_DIRS}/nccl.h" AND EXISTS "${CUDAToolkit_INCLUDE_DIRS}/cublasLt.h")
  set(HEXAD_CUDA_DOUBLE ON)
endif()
if(HEXAD_CUDA_DOUBLE)
  message(STATUS "CUDA headers found: tests run the CUDA backend on test doubles of NVIDIA's libraries")
else()
  message(STATUS "CUDA 13 headers with nccl.h and cublasLt.h not found: tests do not run the CUDA backend on test "
                 "doubles of NVIDIA's libraries")
endif()
