// Vectors of one instruction set. Only files that hexad_isa_objects compiles include this file, so everything has
// internal linkage.
#pragma once

#include <cstdint>

namespace hexad::kernels::cpu::HEXAD_ISA {
namespace {

#ifdef __AVX512F__
constexpr int vector_bytes = 64;
#else
constexpr int vector_bytes = 32;
#endif
template <class T>
constexpr int lanes = vector_bytes / static_cast<int>(sizeof(T));

template <class T, int n>
struct Vector {
  typedef T type __attribute__((vector_size(n * sizeof(T))));
  typedef T loose __attribute__((vector_size(n * sizeof(T)), aligned(alignof(T)), may_alias));  // vector at any address
};
template <class T, int n = lanes<T>>
using V = typename Vector<T, n>::type;

template <int n, class T>
inline V<T, n> load(const T* p) {
  return *reinterpret_cast<const typename Vector<T, n>::loose*>(p);
}
template <int n, class T>
inline void store(T* p, V<T, n> v) {
  *reinterpret_cast<typename Vector<T, n>::loose*>(p) = v;
}

/// Type in which a stored element is computed. bf16 elements are stored as uint16_t.
template <class T>
struct WideOf {
  using type = T;
};
template <>
struct WideOf<uint16_t> {
  using type = float;
};
template <class T>
using Wide = typename WideOf<T>::type;

/// Converts stored elements to the type in which they are computed.
template <int n, class T>
inline V<Wide<T>, n> widen(const T* p) {
  if constexpr (sizeof(T) == 2) {
    return reinterpret_cast<V<float, n>>(__builtin_convertvector(load<n>(p), V<uint32_t, n>) << 16);
  } else {
    return load<n>(p);
  }
}
template <class T>
inline Wide<T> widen_one(const T* p) {
  if constexpr (sizeof(T) == 2) {
    return __builtin_bit_cast(float, static_cast<uint32_t>(*p) << 16);
  } else {
    return *p;
  }
}
/// Converts computed elements to the stored type, rounded to nearest even. NaN remains NaN.
template <int n, class T>
inline void narrow(T* p, V<Wide<T>, n> v) {
  if constexpr (sizeof(T) == 2) {
    const auto u = reinterpret_cast<V<uint32_t, n>>(v);
    const auto rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, quiet = (u >> 16) | 0x40u;
    store<n>(p, __builtin_convertvector(v == v ? rounded : quiet, V<uint16_t, n>));
  } else {
    store<n>(p, v);
  }
}
template <class T>
inline void narrow_one(T* p, Wide<T> x) {
  if constexpr (sizeof(T) == 2) {
    const auto u = __builtin_bit_cast(uint32_t, x);
    *p = static_cast<uint16_t>(x == x ? (u + 0x7fffu + ((u >> 16) & 1u)) >> 16 : (u >> 16) | 0x40u);
  } else {
    *p = x;
  }
}

}  // namespace
}  // namespace hexad::kernels::cpu::HEXAD_ISA
