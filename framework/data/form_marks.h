// Marks of named chat forms that a tokenizer spells as text.
#pragma once

#include <string>
#include <string_view>

#include "framework/data/tokenizer.h"

namespace hexad::data {

/// Returns a warning if `tokenizer` lacks a token for a mark of the chat form `form`. An example is "has no token for
/// [INST], so ...". Otherwise returns an empty string. Also returns an empty string for a tokenizer that Hexad has
/// trained, and if `form` is empty or `model`. Marks are texts such as <s> or [INST] around turns. Marks of tools are
/// not checked, because models write some of them as text.
std::string spelled_marks(std::string_view form, const Tokenizer& tokenizer);

}  // namespace hexad::data
