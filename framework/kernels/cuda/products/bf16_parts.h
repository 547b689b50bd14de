// Products with f32 factors on bf16 tensor cores, such as a router's f32 weight with bf16 activations.
#pragma once

#include "framework/kernels/cuda/products/blas.h"

namespace hexad::kernels::cuda {

/// Computes out = left right, or adds it to `out`, like multiply(), for factors of which at least one is f32. An f32
/// factor w is split into bf16 parts hi + mid + lo = w; this is exact except for bits below 2^-134. Products of parts
/// are exact in f32 and are summed in f32.
///   bf16 and f32 factor: all three parts are used, so no bit of the factors is lost. Sums are those of bf16 products.
///   f32 factors, bf16 result: computes hi hi + hi mid + mid hi. This omits at most about 3 * 2^-16 of the sum of
///     |left| |right|; rounding costs up to 2^-8 of the result.
/// The result is not finite wherever the f32 product is not. It may be NaN instead of infinity where an infinity is
/// multiplied by a factor that was split. Returns false, without a launch, in three cases: the bf16 matrix is too small
/// for a gain, the f32 factors are not small compared with it, or cuBLASLt has no fast kernel for the sizes.
bool multiply_in_parts(Stream& stream, const Matrix& out, const Factor& left, const Factor& right, Write write);

}  // namespace hexad::kernels::cuda
