// Conversion of a fraction of a rank's threads to a number of threads.
#pragma once

#include <algorithm>

namespace hexad::base {

/// Returns the number of threads that a computation may use: the fraction `share`, in (0, 1], of `threads`, rounded
/// down, but at least 1.
inline int threads_of_share(int threads, double share) { return std::max(1, static_cast<int>(share * threads + 1e-9)); }

}  // namespace hexad::base
