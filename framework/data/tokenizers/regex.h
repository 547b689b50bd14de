// Regular expressions of tokenizers: PCRE2 with just-in-time compilation and limits on time and memory.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "framework/data/tokenizers/regex_dialect.h"

namespace hexad::data {

/// A compiled expression. Thread-safe.
class Regex {
 public:
  /// Compiles `pattern`, written in `dialect`. `where` names the pattern's file and key in messages.
  /// Throws Error(data) if the pattern is invalid or too long, or if pcre_pattern() refuses it.
  Regex(std::string_view pattern, std::string where, RegexDialect dialect);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  /// Calls f(begin, end) for each match, from left to right. An empty match is skipped if it is at the end of the
  /// previous match or if `text` is empty. `text` must be valid UTF-8. Throws Error(data) if a match exceeds the limit
  /// of steps or memory, or if too many matches take many steps.
  void for_each_match(std::string_view text, const std::function<void(size_t, size_t)>& f) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace hexad::data
