// Loops of the wire format: conversion of rows to e4m3 codes and back. framework/base/fp8.h defines the format.
#pragma once

#include "framework/kernels/cpu/simd/isa.h"

namespace hexad::kernels::cpu {

template <class T>
struct WireLoops {
  /// Returns the bits of the largest |x| as a float: 0x7f800000 or more if an element is not finite.
  uint32_t (*largest_bits)(const T* x, int64_t n);
  /// Computes codes = e4m3 of x / divisor, in f32. |x / divisor| must be < 464, because larger values do not round to
  /// 448.
  void (*encode)(uint8_t* codes, const T* x, float divisor, int64_t n);
  /// Computes out = scale * value of each code.
  void (*decode)(T* out, const uint8_t* codes, float scale, int64_t n);
};

namespace v3 {
extern const ByDtype<WireLoops> wire_loops;
}
namespace v4 {
extern const ByDtype<WireLoops> wire_loops;
}

}  // namespace hexad::kernels::cpu
