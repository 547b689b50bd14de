// Values as YAML text.
#pragma once

#include <string>
#include <string_view>

#include "framework/config/type.h"

namespace hexad::config {

/// Returns any value on one line: `0.5`, `[1, 2]`, `{path: a, weight: 1}`. An unset optional is `unset_word`.
std::string flow_text(void* value, const Type& type, std::string_view unset_word);

}  // namespace hexad::config
