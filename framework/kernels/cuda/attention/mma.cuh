// Instructions of the kernels on tensor cores: m16n8k16 products of bf16 with f32 sums, loads of matrices from shared
// memory, and asynchronous copies to shared memory. For the layouts, see the PTX ISA, "Matrix fragments for
// mma.m16n8k16". In a fragment of sums, lane 4 * g + t holds columns 2 * t and 2 * t + 1 of rows g (elements 0, 1) and
// g + 8 (elements 2, 3).
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace hexad::kernels::cuda::mma {

/// Loads four 8 x 8 matrices, each into one register per lane. `row` of lane l must be the offset, in elements from
/// `memory`, of row l % 8 of matrix l / 8.
__device__ __forceinline__ void load(uint32_t (&to)[4], const __nv_bfloat16* memory, int row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(memory)) + 2 * static_cast<uint32_t>(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}
__device__ __forceinline__ void load_transposed(uint32_t (&to)[4], const __nv_bfloat16* memory, int row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(memory)) + 2 * static_cast<uint32_t>(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}

/// Computes sums[16, 8] += left[16, 16] right[16, 8].
__device__ __forceinline__ void multiply_add(float (&sums)[4], const uint32_t (&left)[4], uint32_t right0,
                                             uint32_t right1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
}

/// Returns `low` and `high`, rounded to bf16, in one register; `low` is first in memory.
__device__ __forceinline__ uint32_t pack(float low, float high) {
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

/// Returns 2^x. Results below 2^-126 are zero.
__device__ __forceinline__ float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Starts a copy of `Bytes` bytes (4, 8 or 16) to shared memory. Both addresses must be multiples of `Bytes`. If
/// `wanted` is false, writes zeros and does not read `from`.
template <int Bytes>
__device__ __forceinline__ void copy(void* to, const void* from, bool wanted) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  const int bytes = wanted ? Bytes : 0;
  if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from), "n"(Bytes), "r"(bytes)
                 : "memory");
  }
}
/// Waits for this thread's copies. To wait for the copies of other threads, a barrier is also required.
__device__ __forceinline__ void wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace hexad::kernels::cuda::mma
