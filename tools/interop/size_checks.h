// Conditions on sizes of a config.json that limits of single keys do not cover. Also names config keys in messages.
#pragma once

#include <string>
#include <string_view>

#include "tools/interop/family.h"
#include "tools/interop/model_keys.h"

namespace hexad::interop {

/// Checks sizes that are used as divisors, counts that must not be zero, and sizes that depend on each other. Throws
/// Error(data). The message begins with `where`.
void require_sizes(const ModelKeys& keys, const Family& family, const std::string& where);

/// Returns the config key of this family that gives the recipe key `recipe`. Alternative names are joined by " or ",
/// such as "num_experts_per_tok or moe_k". Returns an empty text if there is no such key.
std::string config_keys_of(const Family& family, std::string_view recipe);

}  // namespace hexad::interop
