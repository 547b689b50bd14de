// Code shared by all CUDA kernels: element types, rows, vectors, launches, and sums and maxima over warps and blocks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <ranges>
#include <string_view>
#include <type_traits>
#include <utility>

#include "framework/device/cuda/cuda_check.h"
#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/cuda/launch_sizes.h"
#include "framework/kernels/cuda/launcher.cuh"
#include "framework/kernels/kernel_table.h"
#include "framework/kernels/tensor_checks.h"
#include "framework/tensor/device_access.h"

namespace hexad::kernels::cuda {

using base::bf16;
using base::require;
using base::Shape;
using tensor::device_data;

using device::cuda::check;
using device::cuda::cuda_stream;

/// Device type that corresponds to the host's element type T: CUDA's own type for bf16, otherwise T.
template <class T>
struct DeviceType {
  using type = T;
};
template <>
struct DeviceType<bf16> {
  using type = __nv_bfloat16;
};
template <class T>
using device_t = typename DeviceType<T>::type;
/// Type in which elements of type D are summed: double for double, otherwise float.
template <class D>
using sum_t = std::conditional_t<std::is_same_v<D, double>, double, float>;

/// Returns the address of a tensor's first element as a pointer to the device type of T; null if undefined.
template <class T>
device_t<T>* pointer(const Tensor& t) {
  return t.defined() ? reinterpret_cast<device_t<T>*>(device_data<T>(t)) : nullptr;
}

/// Converts x to the type To. Rounds to nearest even, like the CPU.
template <class To, class From>
__device__ __forceinline__ To to(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<To, __nv_bfloat16>) {
    if constexpr (std::is_same_v<From, double>) {
      return __float2bfloat16_rn(static_cast<float>(x));
    } else {
      return __float2bfloat16_rn(x);
    }
  } else if constexpr (std::is_same_v<From, __nv_bfloat16>) {
    return static_cast<To>(__bfloat162float(x));
  } else {
    return static_cast<To>(x);
  }
}

/// N elements that are loaded or stored by one instruction.
template <class D, int N>
struct alignas(sizeof(D) * N) Vector {
  D at[N];
};
/// Number of elements of type D in 16 bytes.
template <class D>
inline constexpr int wide = 16 / static_cast<int>(sizeof(D));

/// A tensor as rows of contiguous elements. The leading dimensions may have any strides. Kernels take this struct by
/// value.
template <class D>
struct Rows {
  static constexpr int max_levels = 3;
  D* data = nullptr;
  int64_t count = 1, width = 1;
  int levels = 0;                                    // number of leading dimensions that remain after merging
  int64_t size[max_levels]{}, stride[max_levels]{};  // sizes and strides of these dimensions, innermost first

  /// Returns the address of row r.
  __host__ __device__ D* operator[](int64_t r) const {
    if (levels <= 1) return data + r * stride[0];
    int64_t offset = 0;
    for (int l = 0; l + 1 < levels; ++l) {
      offset += r % size[l] * stride[l];
      r /= size[l];
    }
    return data + offset + r * stride[levels - 1];
  }
  /// True if every row begins and ends at a multiple of `elements` elements.
  bool aligned(int elements) const {
    bool ok = multiples_of(elements, sizeof(D), data, {width});
    for (int l = 0; l < levels; ++l) ok = ok && (size[l] == 1 || stride[l] % elements == 0);
    return ok;
  }
};

/// Returns the rows of a tensor. Throws std::logic_error, with `op` in the message, if the tensor cannot be viewed as
/// rows.
template <class T>
Rows<device_t<T>> rows_of(std::string_view op, const Tensor& t) {
  Rows<device_t<T>> rows;
  rows.data = pointer<T>(t);
  rows.width = t.rank() ? t.dim(-1) : 1;
  require(rows.width <= 1 || t.strides()[-1] == 1, "[", op, "] the last dimension of a tensor of shape ", t.shape(),
          " has stride ", t.strides()[-1], "; expected 1");
  for (int d = t.rank() - 2; d >= 0; --d) {
    rows.count *= t.dim(d);
    if (t.dim(d) == 1) continue;
    const int last = rows.levels - 1;
    if (rows.levels > 0 && t.strides()[d] == rows.size[last] * rows.stride[last]) {
      rows.size[last] *= t.dim(d);
      continue;
    }
    require(rows.levels < Rows<device_t<T>>::max_levels, "[", op, "] a tensor of shape ", t.shape(), " and strides ",
            t.strides(), " has more than ", Rows<device_t<T>>::max_levels,
            " dimensions of rows that do not merge; make the tensor contiguous");
    rows.size[rows.levels] = t.dim(d);
    rows.stride[rows.levels++] = t.strides()[d];
  }
  return rows;
}

/// Types that can be passed to a kernel as a copy of their bytes. Containers and views of host memory are excluded.
template <class T>
concept KernelParameter = std::is_trivially_copyable_v<T> && !std::is_reference_v<T> && !std::ranges::range<T>;

/// Launches `kernel` if the number of blocks is not zero, and checks that the launch succeeded. Each block gets
/// `shared` bytes of dynamic shared memory. No launch of this kernel may request more than `max_shared` bytes, or more
/// than the card permits. If `max_shared` exceeds usual_shared_memory, the kernel must have no other shared memory.
template <size_t max_shared, KernelParameter... Parameters, class... Arguments>
void launch_shared(std::string_view op, void (*kernel)(Parameters...), Blocks blocks, int threads, size_t shared,
                   Stream& stream, Arguments&&... arguments) {
  static_assert(max_shared <= max_shared_memory, "compute capability 8.0 does not permit that much shared memory");
  if (blocks.none()) return;
  require(blocks.possible(), "[", op, "] needs ", blocks.x, " x ", blocks.y, " blocks of threads; expected at most ",
          max_blocks_x, " x ", max_blocks_y);
  require(threads <= max_threads_of_block, "[", op, "] needs ", threads, " threads per block; expected at most ",
          max_threads_of_block);
  const size_t permitted = std::min(max_shared, cuda_stream(stream).card().shared_memory());
  require(shared <= permitted, "[", op, "] needs ", shared, " bytes of shared memory; expected at most ", permitted);
  // The maximum is set at every launch, because other host threads may set a maximum for the same kernel.
  if (max_shared > usual_shared_memory) check(allow_shared(kernel, permitted), op);
  const auto queue = cuda_stream(stream).handle();
  start_kernel(op, kernel, dim3(static_cast<unsigned>(blocks.x), static_cast<unsigned>(blocks.y)),
               dim3(static_cast<unsigned>(threads)), shared, queue.get(), static_cast<Parameters>(arguments)...);
  check(cudaGetLastError(), op);
}

/// Launches `kernel` with one object of type Memory in the shared memory of each block. sizeof(Memory) must be at most
/// common_shared_memory, which every card permits.
template <class Memory, KernelParameter... Parameters, class... Arguments>
void launch_with(std::string_view op, void (*kernel)(Parameters...), Blocks blocks, int threads, Stream& stream,
                 Arguments&&... arguments) {
  static_assert(sizeof(Memory) <= common_shared_memory, "some cards do not permit that much shared memory");
  launch_shared<sizeof(Memory)>(op, kernel, blocks, threads, sizeof(Memory), stream,
                                std::forward<Arguments>(arguments)...);
}

/// Launches `kernel` without dynamic shared memory.
template <KernelParameter... Parameters, class... Arguments>
void launch(std::string_view op, void (*kernel)(Parameters...), Blocks blocks, int threads, Stream& stream,
            Arguments&&... arguments) {
  launch_shared<0>(op, kernel, blocks, threads, 0, stream, std::forward<Arguments>(arguments)...);
}

/// Returns the number of blocks for a grid-stride loop over n items if each block processes `per_block` items at a
/// time: at most `blocks_per_multiprocessor` for each multiprocessor of the card. The number is zero if n is zero.
inline int64_t blocks_for(Stream& stream, int64_t n, int64_t per_block, int blocks_per_multiprocessor = 8) {
  return blocks_of_loop(n, per_block,
                        int64_t{cuda_stream(stream).card().multiprocessors()} * blocks_per_multiprocessor);
}

/// Returns the sum over the lanes of the warp, on every lane. The order of addition is fixed.
template <class A>
__device__ __forceinline__ A warp_sum(A x) {
#pragma unroll
  for (int step = warp_size / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}
template <class A>
__device__ __forceinline__ A warp_max(A x) {
#pragma unroll
  for (int step = warp_size / 2; step > 0; step /= 2) {
    const A other = __shfl_xor_sync(0xffffffffu, x, step);
    x = x < other ? other : x;
  }
  return x;
}

/// Returns the sum over all threads of the block, on every thread. The number of threads must be a multiple of 32 and
/// at most 1024. `scratch` is 32 elements of shared memory. The next call may reuse them without a barrier.
template <class A>
__device__ __forceinline__ A block_sum(A x, A* scratch) {
  x = warp_sum(x);
  const int warps = static_cast<int>(blockDim.x) / warp_size, lane = static_cast<int>(threadIdx.x) % warp_size;
  if (warps == 1) return x;
  if (lane == 0) scratch[threadIdx.x / warp_size] = x;
  __syncthreads();
  x = lane < warps ? scratch[lane] : A(0);
  x = warp_sum(x);
  __syncthreads();
  return x;
}

/// Returns the maximum over all threads of the block, on every thread. Synchronises the block. The number of threads
/// and `scratch` are as in block_sum(). x must not be NaN: callers leave NaN out of the maximum and detect it by a sum.
template <class A>
__device__ __forceinline__ A block_max(A x, A* scratch) {
  x = warp_max(x);
  const int warps = static_cast<int>(blockDim.x) / warp_size, lane = static_cast<int>(threadIdx.x) % warp_size;
  if (lane == 0) scratch[threadIdx.x / warp_size] = x;
  __syncthreads();
  x = warp_max(scratch[lane < warps ? lane : 0]);
  __syncthreads();
  return x;
}

}  // namespace hexad::kernels::cuda
