// Sums, maxima and minima over ranks.
#pragma once

#include <span>

#include "parallel/comm/operation.h"

namespace hexad::comm {

using base::Dtype;

/// Computes out[i] = sources[0][i] (+) sources[1][i] (+) ... for i < count, in this order, where (+) is `op`. The order
/// is fixed, so the result is the same on every rank, and with any division of a tensor into pieces. Sums of bf16 are
/// accumulated in f32. The result is NaN if any source is NaN. `out` may be one of the sources.
void reduce(void* out, std::span<const void* const> sources, int64_t count, Dtype dtype, Reduce op);

}  // namespace hexad::comm
