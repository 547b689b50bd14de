// Merging of two sources of keys, the later one winning.
#pragma once

#include "framework/config/document.h"

namespace hexad::config {

/// Merges `over` into `under`, map by map; `over` wins. A section left empty replaces nothing.
void merge(Node& under, Node over);

/// Moves a child of a map behind its siblings, as the one that was written last.
Node& to_the_end(Node& map, Node& child);

}  // namespace hexad::config
