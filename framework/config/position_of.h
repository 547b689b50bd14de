// Position of a key in a document, for messages about recipes and cluster files that were read successfully.
#pragma once

#include <string>
#include <string_view>

#include "framework/config/document.h"

namespace hexad::config {

/// Returns the position of the key `path` (such as "model.moe.experts") as a text like "recipes/a.yaml:14". If the
/// document does not have the key, returns the position of the innermost section above the key. Returns an empty text
/// if the document has no such section.
std::string position_of(const Document& document, std::string_view path);

}  // namespace hexad::config
