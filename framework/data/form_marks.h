// Marks of named chat forms that a tokenizer spells as text.
#pragma once

#include <string>
#include <string_view>

#include "framework/data/tokenizer.h"

namespace hexad::data {

/// Checks that `tokenizer` has a token for each mark of the chat form `form`. If a tokenizer of another program lacks a
/// mark, returns a warning text such as "has no token for [INST], so ...". Marks are texts such as <s> or [INST] around
/// turns. Otherwise returns an empty string, also if `form` is empty or `model`. Marks of tools are not checked,
/// because models write some of them as text.
std::string spelled_marks(std::string_view form, const Tokenizer& tokenizer);

}  // namespace hexad::data
