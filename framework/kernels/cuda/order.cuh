// Conversion of floating-point numbers to unsigned integers with the same order.
#pragma once

#include <cstdint>
#include <type_traits>

#include "framework/kernels/cuda/launcher.cuh"

namespace hexad::kernels::cuda {

/// Unsigned integers that represent numbers of type A: they compare like the numbers. NaN comes before all numbers. The
/// integer 0 represents no number.
template <class A>
using Order = std::conditional_t<std::is_same_v<A, double>, uint64_t, uint32_t>;
inline constexpr uint32_t nan_order = 1;

template <class A>
inline constexpr Order<A> sign_bit = Order<A>{1} << (8 * sizeof(A) - 1);

template <class A>
__device__ Order<A> order_of(A x) {
  if (x != x) return nan_order;
  x += A(0);  // turns -0 into +0
  Order<A> bits;
  if constexpr (std::is_same_v<A, double>) {
    bits = static_cast<Order<A>>(__double_as_longlong(x));
  } else {
    bits = __float_as_uint(x);
  }
  return bits & sign_bit<A> ? ~bits : bits | sign_bit<A>;
}

}  // namespace hexad::kernels::cuda
