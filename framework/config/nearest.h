// Suggestion of the nearest legal values if a rule between several keys is broken.
#pragma once

#include <functional>

#include "framework/config/problems.h"

namespace hexad::config {

/// Appends suggestions to the message of every broken rule between keys: the nearest values of one key that satisfy the
/// rule. Tries candidate values; `check` must read and check a document. The key is one that the problem mentions. Keys
/// on the command line are tried before keys in files, and these before defaults. If every value breaks another rule,
/// the suggestion names that rule. If no single key can satisfy a rule, there is no suggestion. May call `check`
/// hundreds of times, so it is meant for interactive use.
void suggest_nearest(const Document& document, Problems& problems,
                     const std::function<Problems(const Document&)>& check);

}  // namespace hexad::config
