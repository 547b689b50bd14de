// Searches for the simplest layout that still fails, starting from a layout that fails.
#pragma once

#include <functional>

#include "tools/verify/variant.h"

namespace hexad::verify {

/// Number of ranks of the simpler layouts.
///   - fixed: as in the failing layout, because the ranks are processes
///   - may_leave: may be smaller
enum class Ranks : uint8_t { fixed, may_leave };

/// Simplifies `failing` in single steps, as long as `fails` returns true. A step removes ranks (only with
/// Ranks::may_leave), moves ranks from another axis to dp or edp, or sets an option to its plain value. Steps are tried
/// in this order. Calls `fails` at most once for each variant. Returns a variant that fails, although all variants that
/// are one step simpler pass. `fails` must return false for illegal variants.
Variant minimal_failure(const Variant& failing, const std::function<bool(const Variant&)>& fails,
                        Ranks ranks = Ranks::may_leave);

}  // namespace hexad::verify
