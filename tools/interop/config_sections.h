// Config keys inside sections, such as attn_config of DBRX. The tables write such a key as SECTION.KEY, for example
// "attn_config.clip_qkv". Import and export work on a flat config, in which such a key is at the top level.
#pragma once

#include <string>

#include "tools/interop/family.h"
#include "tools/interop/layer_pattern.h"

namespace hexad::interop {

/// Moves the keys of the family's sections to the top level, under the names SECTION.KEY. Throws Error(data) if a
/// section is not an object. The message begins with `where`.
Json without_sections(const Json& config, const Family& family, const std::string& where);
OrderedJson without_sections(const OrderedJson& config, const Family& family, const std::string& where);

/// Inverse of without_sections(). Keys keep their order; a section is at the position of its first key.
OrderedJson with_sections(const OrderedJson& config, const Family& family);

/// Returns the key without its section: "clip_qkv" for "attn_config.clip_qkv".
std::string_view key_in_section(std::string_view key, const Family& family);

}  // namespace hexad::interop
