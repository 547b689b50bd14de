// Merging of two sources of keys. The later source has priority.
#pragma once

#include "framework/config/document.h"

namespace hexad::config {

/// Merges `over` into `under`, map by map. Values of `over` have priority, but an empty value does not replace a map.
void merge(Node& under, Node over);

/// Moves a child of a map behind its siblings, to mark it as written last. Returns the child.
Node& move_to_end(Node& map, Node& child);

}  // namespace hexad::config
