// Differences between the regular expressions of Rust or Oniguruma, in which tokenizers are written, and PCRE2.
#pragma once

#include <string>
#include <string_view>

namespace hexad::data {

/// Returns `pattern` with \s, \S and \w replaced by explicit classes, because PCRE2 counts U+180E as white space and no
/// marks as letters of words. Throws Error(data) that begins with `where` for constructs with another meaning in PCRE2,
/// such as set operations in classes.
std::string pcre_pattern(std::string_view pattern, std::string_view where);

}  // namespace hexad::data
