// From a layout that fails to the smallest one that still does.
#pragma once

#include <functional>

#include "tools/verify/variant.h"

namespace hexad::verify {

/// Fixed if the ranks are processes that exist already; else moves may leave some out.
enum class Ranks : uint8_t { fixed, may_leave };

/// Moves axes to one, factor by factor, and options to their plain values, as long as `fails` says that the failure
/// stays; each variant is asked about once. Fewer ranks come first, then axes, then options. The result still fails and
/// no single move from it does. `fails` must be false for variants that are illegal.
Variant minimal_failure(const Variant& failing, const std::function<bool(const Variant&)>& fails,
                        Ranks ranks = Ranks::may_leave);

}  // namespace hexad::verify
