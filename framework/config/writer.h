// Conversion of values to YAML text.
#pragma once

#include <string>
#include <string_view>

#include "framework/config/type.h"

namespace hexad::config {

/// Returns a value on one line, for example `0.5`, `[1, 2]` or `{path: a, weight: 1}`. `unset_word` is the text of an
/// optional that is not set.
std::string flow_text(void* value, const Type& type, std::string_view unset_word);

}  // namespace hexad::config
