// Conditions on sizes of a config.json that limits of single keys do not cover.
#pragma once

#include <string>
#include <string_view>

#include "tools/interop/family.h"
#include "tools/interop/model_keys.h"

namespace hexad::interop {

/// Checks sizes that are used as divisors, counts that must not be zero, and sizes that depend on each other. Throws
/// Error(data). The message begins with `where`.
void require_sizes(const ModelKeys& keys, const Family& family, const std::string& where);

/// Returns the first name of the config key that sets a recipe key in this family; empty if there is none.
std::string_view config_key_of(const Family& family, std::string_view recipe);

}  // namespace hexad::interop
