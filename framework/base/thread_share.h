// Number of threads of a share.
#pragma once

#include <algorithm>

namespace hexad::base {

/// Returns how many of `threads` threads a computation may use under `share`, in (0, 1]: rounded down, but at least
/// one.
inline int threads_of_share(int threads, double share) { return std::max(1, static_cast<int>(share * threads + 1e-9)); }

}  // namespace hexad::base
