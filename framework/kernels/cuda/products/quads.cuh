// Exchange of words between the four threads of a quad.
#pragma once

#include <cstdint>

#include "framework/kernels/cuda/launcher.cuh"

namespace hexad::kernels::cuda {

/// Transposes 4 x 4 words over the four threads of a quad: word i of thread j becomes word j of thread i. `lane` is the
/// thread's index in the quad. All threads of the warp must call this function.
__device__ __forceinline__ void transpose_in_quad(uint32_t (&word)[4], int lane) {
#pragma unroll
  for (int step = 1; step < 4; step *= 2)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & step) continue;
      const bool second = lane & step;
      const uint32_t got = __shfl_xor_sync(0xffffffffu, second ? word[i] : word[i + step], step);
      word[i] = second ? got : word[i];
      word[i + step] = second ? word[i + step] : got;
    }
}

}  // namespace hexad::kernels::cuda
