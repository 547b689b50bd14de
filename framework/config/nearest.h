// Nearest legal values for a broken rule between keys.
#pragma once

#include <functional>

#include "framework/config/problems.h"

namespace hexad::config {

/// Ends every broken rule between keys with the nearest values that break none, found by trying: `check` reads and
/// checks a document. They are values of one key that the problem names: of one given on the command line rather than
/// one in the file, of one in the file rather than a default. Where such a value breaks another rule it is said, too;
/// rules that no value of one key mends end without values. Meant for a person who waits: up to some hundred calls of
/// `check`.
void suggest_nearest(const Document& document, Problems& problems,
                     const std::function<Problems(const Document&)>& check);

}  // namespace hexad::config
