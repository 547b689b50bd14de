// Translation of regular expressions from the dialects of tokenizer files (Rust, Oniguruma) to PCRE2.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hexad::data {

/// Dialect of a pattern: Oniguruma for tokenizer.json, Rust for tiktoken and tekken.json.
enum class RegexDialect : uint8_t { oniguruma, rust };

/// Returns `pattern` with the same meaning in PCRE2. Differences that are translated:
/// - \s, \S, \w, \W, \b, \B and \v match different characters in PCRE2;
/// - \p{Han} means the script, not its extensions;
/// - in Oniguruma, ^ and $ match at each line;
/// - in Oniguruma, the counted part is repeated by a + after a count such as {1,3}, or by a ? after a count such as
///   {3}.
/// Throws Error(data) for other constructs that PCRE2 interprets differently, such as set operations in classes. The
/// message begins with `where`.
std::string pcre_pattern(std::string_view pattern, std::string_view where, RegexDialect dialect);

}  // namespace hexad::data
