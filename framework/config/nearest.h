// Suggestion of the nearest legal values if a rule between keys is broken.
#pragma once

#include <functional>

#include "framework/config/problems.h"

namespace hexad::config {

/// Appends to every broken rule between keys the nearest values that break no rule. It finds them by trying: `check`
/// reads and checks a document. The values are those of one key that the problem names. A key from the command line is
/// preferred to one in the file, and a key in the file to a default. If such a value breaks another rule, the text says
/// so. A rule that no value of a single key mends gets no suggestion. Makes up to some hundred calls of `check`, so it
/// is meant for interactive use.
void suggest_nearest(const Document& document, Problems& problems,
                     const std::function<Problems(const Document&)>& check);

}  // namespace hexad::config
