#include "framework/data/tokenizers/regex_dialect.h"

#include "framework/base/error.h"

namespace hexad::data {
namespace {

constexpr std::string_view white_space =
    R"(\t-\r\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}\p{Zl}\p{Zp})";
// Alphabetic characters, marks, decimal digits and connecting punctuation.
constexpr std::string_view word = R"(\x{24B6}-\x{24E9}\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc})";

// Reads a pattern from left to right.
class Translation {
 public:
  Translation(std::string_view pattern, std::string_view where) : pattern_(pattern), where_(where) {}

  std::string run() {
    for (size_t i = 0; i < pattern_.size(); ++i) {
      if (pattern_[i] == '\\' && i + 1 < pattern_.size()) {
        escape(pattern_[++i]);
      } else {
        character(i);
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    base::fail(base::ExitCode::data, where_, ": the pattern \"", pattern_, "\" has ", what, ", which is not supported");
  }
  void escape(char c) {
    first_ = false;
    after_set_ = c == 's' || c == 'w';
    if (after_set_) {
      const std::string_view set = c == 's' ? white_space : word;
      if (in_class_) {
        out_ += set;
      } else {
        out_.append("[").append(set).append("]");
      }
    } else if ((c == 'S' || c == 'W') && !in_class_) {
      out_.append("[^").append(c == 'S' ? white_space : word).append("]");
    } else if (c == 'S' || c == 'W') {
      refuse("\\S or \\W in a class");
    } else if (std::string_view("GHKQRXh").find(c) != std::string_view::npos) {
      refuse(base::cat("\\", c));
    } else {
      out_ += '\\';
      out_ += c;
    }
  }
  void character(size_t i) {
    const char c = pattern_[i];
    const char next = i + 1 < pattern_.size() ? pattern_[i + 1] : '\0';
    if (in_class_ && after_set_ && c == '-') out_ += '\\';  // not a range from the end of the set
    after_set_ = false;
    out_ += c;
    if (!in_class_) {
      in_class_ = first_ = c == '[';
      return;
    }
    if (first_ && c == '^') return;
    if (c == ']' && !first_) {
      in_class_ = false;
      return;
    }
    first_ = false;
    if (c == '[' && next != ':') refuse("a class in a class");
    if (c == '[') return posix_class(i);
    if (c == next && (c == '&' || c == '~')) refuse("a set operation in a class");
  }
  // Refuses a class such as [:alpha:], whose end would be taken as the end of the enclosing class.
  void posix_class(size_t i) const {
    if (pattern_.find(":]", i) != pattern_.npos) refuse("a named class such as [:alpha:]");
  }

  std::string_view pattern_, where_;
  std::string out_;
  bool in_class_ = false;
  bool first_ = false;      // nothing but ^ has been read of the class
  bool after_set_ = false;  // \s or \w has just been read
};

}  // namespace

std::string pcre_pattern(std::string_view pattern, std::string_view where) { return Translation(pattern, where).run(); }

}  // namespace hexad::data
