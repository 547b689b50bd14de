// Reduces a layout that fails to the smallest layout that still fails.
#pragma once

#include <functional>

#include "tools/verify/variant.h"

namespace hexad::verify {

/// Rule for the number of ranks of smaller layouts.
///   - fixed: as many ranks as there are processes
///   - may_leave: moves may remove ranks
enum class Ranks : uint8_t { fixed, may_leave };

/// Reduces axes to one, factor by factor, and options to their plain values, as long as `fails` returns true. Calls
/// `fails` once for each variant. Tries fewer ranks first, then shorter axes, then plain options. The result fails, but
/// no variant that is one step simpler does. `fails` must return false for illegal variants.
Variant minimal_failure(const Variant& failing, const std::function<bool(const Variant&)>& fails,
                        Ranks ranks = Ranks::may_leave);

}  // namespace hexad::verify
