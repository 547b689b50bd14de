// Sums, maxima and minima of the contributions of ranks.
#pragma once

#include <span>

#include "parallel/comm/operation.h"

namespace hexad::comm {

using base::Dtype;

/// Computes out[i] = sources[0][i] (+) sources[1][i] (+) ... for i < count, in this order. So the result does not
/// depend on where it is computed or how a tensor is cut. Sums of bf16 are accumulated in f32. `out` may be one of the
/// sources. A NaN is kept.
void reduce(void* out, std::span<const void* const> sources, int64_t count, Dtype dtype, Reduce op);

}  // namespace hexad::comm
