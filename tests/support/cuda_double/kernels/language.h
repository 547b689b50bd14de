// CUDA's additions to C++ for g++, as far as Hexad's kernels use them. The twins of launcher.cuh and mma.cuh include
// this file. A block's threads are fibers (block.h), which wait for each other at the same calls as on a card.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math.h>  // exp and other functions without std::, for each type

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <type_traits>

#include "tests/support/cuda_double/kernels/block.h"
#include "tests/support/cuda_double/kernels/coordinates.h"

// The names below are from CUDA C++.
// NOLINTBEGIN

#undef __shared__
#ifdef __SANITIZE_ADDRESS__
#define __shared__ static  // the sanitizer guards static variables; one kernel runs at a time
#else
#define __shared__ static thread_local
#endif
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__

#define HEXAD_CALL \
  ::hexad::cuda_double::Call { __func__, from }
#define HEXAD_FROM std::source_location from = std::source_location::current()

inline void __syncthreads(HEXAD_FROM) { hexad::cuda_double::meet_block(HEXAD_CALL, false); }
inline int __syncthreads_or(int predicate, HEXAD_FROM) {
  return hexad::cuda_double::meet_block(HEXAD_CALL, predicate != 0);
}
inline void __syncwarp(unsigned mask = 0xffffffffu, HEXAD_FROM) {
  hexad::cuda_double::meet_warp(HEXAD_CALL, mask, nullptr, 0);
}

namespace hexad::cuda_double {

inline unsigned lane() { return threadIdx.x % lanes_of_warp; }

/// Values of all lanes of `mask`. Each of these lanes must make the same call.
template <class T>
class Values {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(LaneValue));

 public:
  Values(const Call& call, unsigned mask, const T& mine)
      : mask_(mask), all_(meet_warp(call, mask, &mine, sizeof mine)) {}
  T operator[](unsigned lane) const {
    if (!(mask_ & 1u << lane))
      fail_thread("reads the value of lane " + std::to_string(lane) + ", which is not in the mask");
    T value;
    std::memcpy(&value, all_[lane].bytes, sizeof value);
    return value;
  }
  template <class F>
  T reduce(const F& f) const {
    T result = (*this)[static_cast<unsigned>(std::countr_zero(mask_))];
    for (unsigned rest = mask_ & (mask_ - 1); rest; rest &= rest - 1)
      result = f(result, (*this)[static_cast<unsigned>(std::countr_zero(rest))]);
    return result;
  }

 private:
  unsigned mask_;
  const LaneValue* all_;
};

template <class T>
concept Shuffled = std::is_arithmetic_v<T> &&(sizeof(T) == 4 || sizeof(T) == 8);

}  // namespace hexad::cuda_double

template <hexad::cuda_double::Shuffled T>
T __shfl_sync(unsigned mask, T value, int source, HEXAD_FROM) {
  const hexad::cuda_double::Values<T> all(HEXAD_CALL, mask, value);
  return all[static_cast<unsigned>(source) % hexad::cuda_double::lanes_of_warp];
}
template <hexad::cuda_double::Shuffled T>
T __shfl_xor_sync(unsigned mask, T value, int bits, HEXAD_FROM) {
  const hexad::cuda_double::Values<T> all(HEXAD_CALL, mask, value);
  return all[hexad::cuda_double::lane() ^ static_cast<unsigned>(bits)];
}
template <hexad::cuda_double::Shuffled T>
T __shfl_up_sync(unsigned mask, T value, unsigned step, HEXAD_FROM) {
  const hexad::cuda_double::Values<T> all(HEXAD_CALL, mask, value);
  const unsigned lane = hexad::cuda_double::lane();
  return lane < step ? value : all[lane - step];
}
inline unsigned __ballot_sync(unsigned mask, int predicate, HEXAD_FROM) {
  const unsigned mine = predicate ? 1u << hexad::cuda_double::lane() : 0u;
  return hexad::cuda_double::Values<unsigned>(HEXAD_CALL, mask, mine).reduce([](unsigned a, unsigned b) {
    return a | b;
  });
}
template <hexad::cuda_double::Shuffled T>
unsigned __match_any_sync(unsigned mask, T value, HEXAD_FROM) {
  const hexad::cuda_double::Values<T> all(HEXAD_CALL, mask, value);
  unsigned same = 0;
  for (unsigned rest = mask; rest; rest &= rest - 1)
    if (all[static_cast<unsigned>(std::countr_zero(rest))] == value) same |= rest & (~rest + 1);
  return same;
}
template <class T>
requires std::is_same_v<T, int> || std::is_same_v<T, unsigned> T __reduce_min_sync(unsigned mask, T value, HEXAD_FROM) {
  return hexad::cuda_double::Values<T>(HEXAD_CALL, mask, value).reduce([](T a, T b) { return std::min(a, b); });
}
template <class T>
requires std::is_same_v<T, int> || std::is_same_v<T, unsigned> T __reduce_max_sync(unsigned mask, T value, HEXAD_FROM) {
  return hexad::cuda_double::Values<T>(HEXAD_CALL, mask, value).reduce([](T a, T b) { return std::max(a, b); });
}

#undef HEXAD_FROM
#undef HEXAD_CALL

template <class T>
requires std::is_same_v<T, unsigned> || std::is_same_v<T, unsigned long long> T atomicAdd(T* to, T value) {
  return std::atomic_ref<T>(*to).fetch_add(value);
}

/// Like CUDA's overloads, min() and max() convert arguments of two types to their common type.
template <class A, class B>
requires std::is_arithmetic_v<A> && std::is_arithmetic_v<B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <class A, class B>
requires std::is_arithmetic_v<A> && std::is_arithmetic_v<B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return x / y; }
template <class T>
T __ldcs(const T* p) {
  return *p;
}
template <class T>
void __stcs(T* p, const T& value) {
  *p = value;
}

// NOLINTEND
