// Merging of two sources of keys; the later source wins.
#pragma once

#include "framework/config/document.h"

namespace hexad::config {

/// Merges `over` into `under`, map by map; values of `over` win. An empty section replaces nothing.
void merge(Node& under, Node over);

/// Moves a child of a map behind its siblings, because it was written last.
Node& to_the_end(Node& map, Node& child);

}  // namespace hexad::config
