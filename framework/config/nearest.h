// Suggestion of the nearest legal values for keys that break a rule together.
#pragma once

#include <functional>

#include "framework/config/problems.h"

namespace hexad::config {

/// Appends suggestions to the messages of the first 8 broken rules that mention integer keys, in place of earlier
/// suggestions. A suggestion contains the nearest values of one key that satisfy the rule and break no other rule. If
/// there are no such values, the suggestion is a value that satisfies all broken rules, but breaks rules of other keys.
/// The value that breaks the fewest rules is suggested, together with the names of these other keys. Only keys that the
/// message of the rule mentions are suggested. Tries values for keys on the command line first, then for keys in files,
/// then for defaults. Adds no suggestion if none of the values that were tried satisfies these conditions. `check` must
/// read and check a document; it may be called thousands of times.
void suggest_nearest(const Document& document, Problems& problems,
                     const std::function<Problems(const Document&)>& check);

}  // namespace hexad::config
