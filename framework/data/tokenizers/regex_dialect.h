// Differences between the regular expressions of Rust or Oniguruma, in which tokenizers are written, and PCRE2.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hexad::data {

/// The language of a pattern: tokenizer.json is matched by Oniguruma, tiktoken and tekken.json by Rust.
enum class RegexDialect : uint8_t { oniguruma, rust };

/// Returns `pattern` with the same meaning in PCRE2. Differences that are translated:
/// - \s, \S, \w, \W, \b, \B and \v have other characters in PCRE2;
/// - \p{Han} means the script, not its extensions;
/// - in Oniguruma, ^ and $ match at each line, and a + or ? after a count such as {1,3} repeats the counted part.
/// Throws Error(data) that begins with `where` for other constructs that PCRE2 reads in another way, such as set
/// operations in classes.
std::string pcre_pattern(std::string_view pattern, std::string_view where, RegexDialect dialect);

}  // namespace hexad::data
