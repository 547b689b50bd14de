// Whether bytes are text.
#pragma once

#include <cstddef>
#include <string_view>

namespace hexad::base {

/// Bytes of the UTF-8 sequence at the start of `s`; 0 when it is none (overlong, surrogate, cut short, past U+10FFFF).
size_t utf8_length(std::string_view s);

}  // namespace hexad::base
