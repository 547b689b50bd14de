// Suggestion of the nearest legal values for keys that break a rule together.
#pragma once

#include <functional>

#include "framework/config/problems.h"

namespace hexad::config {

/// Appends suggestions to the message of every broken rule between keys: the nearest values of one key that satisfy the
/// rule. The key is one that the message mentions. Tries candidate values for keys on the command line first, then for
/// keys in files, then for defaults. `check` must read and check a document; it may be called hundreds of times. If
/// every value breaks another rule, the suggestion names that rule. There is no suggestion if no single key can satisfy
/// the rule.
void suggest_nearest(const Document& document, Problems& problems,
                     const std::function<Problems(const Document&)>& check);

}  // namespace hexad::config
