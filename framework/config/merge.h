// Merging of two sources of keys, the later one winning.
#pragma once

#include "framework/config/document.h"

namespace hexad::config {

/// `over` replaces what `under` says, map by map; a section left empty replaces nothing.
void merge(Node& under, Node over);

/// Moves a child of a map behind the others: it is written again.
Node& to_the_end(Node& map, Node& child);

}  // namespace hexad::config
