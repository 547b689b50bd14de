# Compiler, libraries and headers of the CUDA backend.
#
# HEXAD_CUDA_ARCH names one generation of GPUs. Code for "90a" (H100, H200) computes grouped products in one kernel, but
# does not run on any other card. Code for a plain number, such as "80" (A100), calls cuBLASLt in a loop for grouped
# products, and also runs on later cards.
set(HEXAD_CUDA_ARCH 90a CACHE STRING "GPU generation to build for, such as 90a or 80")
set(HEXAD_CUTLASS_DIR ${PROJECT_SOURCE_DIR}/build/headers/cutlass/include CACHE PATH "Headers of CUTLASS 4.2")
set(HEXAD_CUDNN_FRONTEND_DIR ${PROJECT_SOURCE_DIR}/build/headers/cudnn-frontend/include CACHE PATH
    "Headers of cuDNN's C++ front end")
foreach(header ${HEXAD_CUTLASS_DIR}/cutlass/cutlass.h ${HEXAD_CUDNN_FRONTEND_DIR}/cudnn_frontend.h)
  if(NOT EXISTS ${header})
    message(FATAL_ERROR "the CUDA backend needs ${header}; run tools/install-dependencies.sh --cuda")
  endif()
endforeach()

find_program(HEXAD_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
if(NOT HEXAD_NVCC AND NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "the CUDA backend needs nvcc: install NVIDIA's CUDA toolkit 13 with cuDNN 9 and add its folder "
                      "bin to the PATH, or use the preset 'release' (CPU)")
endif()
if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${HEXAD_NVCC} CACHE FILEPATH "CUDA compiler")
endif()
if(HEXAD_CUDA_ARCH MATCHES "^[0-9]+$")
  set(CMAKE_CUDA_ARCHITECTURES ${HEXAD_CUDA_ARCH})  # also generates PTX, which drivers compile for later cards
else()
  set(CMAKE_CUDA_ARCHITECTURES ${HEXAD_CUDA_ARCH}-real)
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)  # so that the program also starts on machines without a driver
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")  # NDEBUG, because CUTLASS compiles to slow code without it
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 lacks nvcc's option for C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/refuse_warnings.sh)
if(HEXAD_CCACHE)
  list(APPEND CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${HEXAD_CCACHE})
  # ccache makes the folder after "-isystem " relative to the build folder, but not the folder after "-isystem=". Other
  # checkouts could therefore not share cached objects.
  set(CMAKE_INCLUDE_SYSTEM_FLAG_CUDA "-isystem ")
endif()
# -Wpedantic is not set, because it would warn about the code that nvcc generates from every file.
add_compile_options(
  "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra,-march=${HEXAD_ARCH},-ffp-contract=off>")

find_package(CUDAToolkit 13.0 REQUIRED)
find_library(HEXAD_CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}
             PATH_SUFFIXES lib lib64)
find_path(HEXAD_CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(NOT HEXAD_CUDNN_LIBRARY OR NOT HEXAD_CUDNN_INCLUDE_DIR)
  message(FATAL_ERROR "cuDNN 9, which the CUDA backend needs, was not found in ${CUDAToolkit_LIBRARY_DIR}; if "
                      "it is elsewhere, set HEXAD_CUDNN_LIBRARY and HEXAD_CUDNN_INCLUDE_DIR")
endif()

# Headers that only the kernels need. They are not installed.
add_library(hexad_cuda_headers INTERFACE)
target_include_directories(hexad_cuda_headers SYSTEM INTERFACE ${HEXAD_CUTLASS_DIR} ${HEXAD_CUDNN_FRONTEND_DIR}
                           ${HEXAD_CUDNN_INCLUDE_DIR})
