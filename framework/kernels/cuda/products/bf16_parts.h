// Products with f32 factors on bf16 tensor cores: a router's, whose f32 weight meets bf16 activations.
#pragma once

#include "framework/kernels/cuda/products/blas.h"

namespace hexad::kernels::cuda {

/// out = or += left right as by multiply(), of factors of which one at least is f32. It is cut into bf16 parts
/// hi + mid + lo = w, exactly but for what is below 2^-134; products of parts are exact in f32, and summed there:
///   bf16 and f32 factor: all three parts, so nothing of the factors is lost, and sums are those of bf16 products.
///   f32 factors, bf16 result: hi hi + hi mid + mid hi. About 3 * 2^-16 of the sum of |left| |right| is left out at
///     most; rounding costs up to 2^-8 of the result.
/// The result is non-finite where an f32 product's is, but may be NaN for infinity where an infinity meets a factor
/// that was cut. False, and nothing done, where the bf16 matrix is too small to gain by this, the f32 factors are not
/// small beside it, or cuBLASLt has no fast kernel for the sizes.
bool multiply_in_parts(Stream& stream, const Matrix& out, const Factor& left, const Factor& right, Write write);

}  // namespace hexad::kernels::cuda
