// Suggestion of the nearest legal values if a rule between keys is broken.
#pragma once

#include <functional>

#include "framework/config/problems.h"

namespace hexad::config {

/// Appends to every broken rule between keys the nearest values of one key that satisfy the rule. Tries candidate
/// values: `check` reads and checks a document. The key is one that the problem names; keys from the command line come
/// before keys in the file, and these before defaults. If every value breaks another rule, the text names that rule.
/// Rules that no single key can satisfy get no suggestion. Makes up to some hundred calls of `check`, so it is meant
/// for interactive use.
void suggest_nearest(const Document& document, Problems& problems,
                     const std::function<Problems(const Document&)>& check);

}  // namespace hexad::config
