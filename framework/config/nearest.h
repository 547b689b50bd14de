// Suggestion of the nearest legal values for keys that break a rule together.
#pragma once

#include <functional>

#include "framework/config/problems.h"

namespace hexad::config {

/// Appends suggestions to the messages of the first 8 broken rules that mention integer keys, in place of earlier
/// suggestions. A suggestion contains values of one integer key: the key of the rule, or a key that the message
/// mentions. First tries keys that were given on the command line, then keys in files, then keys with default values.
/// In each of these three groups, suggests the first of the following that exists for a key:
/// 1. The nearest values that satisfy all broken rules and break no other rule. At most one value is on each side of
///    the current value.
/// 2. The nearest values, at most one on each side, that satisfy the rule of the message and break no other rule. The
///    rules that remain broken must not mention the key.
/// 3. The value that satisfies all broken rules, but breaks rules of other keys. Of several such values, suggests the
///    value that breaks the fewest rules, together with the names of the other keys.
///
/// Adds no suggestion if none of the tried values satisfies these conditions. `check` must read and check a document;
/// it may be called thousands of times.
void suggest_nearest(const Document& document, Problems& problems,
                     const std::function<Problems(const Document&)>& check);

}  // namespace hexad::config
