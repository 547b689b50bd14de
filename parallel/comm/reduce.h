// Sums, maxima and minima of the ranks' contributions.
#pragma once

#include <span>

#include "parallel/comm/operation.h"

namespace hexad::comm {

using base::Dtype;

/// out[i] = sources[0][i] (+) sources[1][i] (+) ... for i < count, in this order: the same result wherever it is
/// computed and however a tensor is cut. Sums of bf16 are accumulated in f32. `out` may be one of the sources. A NaN
/// stays.
void reduce(void* out, std::span<const void* const> sources, int64_t count, Dtype dtype, Reduce op);

}  // namespace hexad::comm
