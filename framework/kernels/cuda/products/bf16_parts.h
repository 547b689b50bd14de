// Products with f32 factors on bf16 tensor cores, such as a router's f32 weight with bf16 activations.
#pragma once

#include "framework/kernels/cuda/products/blas.h"

namespace hexad::kernels::cuda {

/// Computes out = left right, or adds the product to `out`, like multiply(). At least one factor must be f32. An f32
/// factor w is split into bf16 parts hi + mid + lo = w. The split is exact except for bits below 2^-133. Products of
/// parts are exact in f32 and are summed in f32.
///
/// - One bf16 factor and one f32 factor: the product uses all three parts, so no bit of the factors is lost. Terms are
///   summed as in bf16 products.
/// - Two f32 factors and a bf16 result: computes hi * hi + hi * mid + mid * hi. This omits at most about 3 * 2^-16 of
///   the sum of |left| * |right|. For comparison, the rounding to bf16 has a relative error of up to 2^-8.
///
/// If an element of the f32 product is not finite, the corresponding element of the result is not finite. This element
/// may be NaN instead of infinity if an infinity is multiplied by a split factor.
///
/// Returns false, and does not change `out`, if:
/// - both factors are f32 and the result is not bf16;
/// - the bf16 matrix (a factor or the result) is too small for a gain;
/// - the f32 factors are not small compared with this matrix;
/// - cuBLASLt has no kernel, or no fast kernel, for the sizes and addresses.
bool multiply_in_parts(Stream& stream, const Matrix& out, const Factor& left, const Factor& right, Write write);

}  // namespace hexad::kernels::cuda
