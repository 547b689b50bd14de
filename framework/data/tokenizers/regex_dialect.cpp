#include "framework/data/tokenizers/regex_dialect.h"

#include <algorithm>
#include <vector>

#include <unicode/uchar.h>

#include "framework/base/error.h"

namespace hexad::data {
namespace {

constexpr std::string_view white_space =
    R"(\t-\r\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}\p{Zl}\p{Zp})";
// Word characters: alphabetic characters (letters, letter numbers, letters in circles and squares), marks, decimal
// digits, connecting punctuation.
constexpr std::string_view word_class =
    R"(\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc})";
constexpr std::string_view joiners = R"(\x{200C}\x{200D})";  // word characters in Rust

// Translates a pattern from left to right.
class Translation {
 public:
  Translation(std::string_view pattern, std::string_view where, RegexDialect dialect)
      : pattern_(pattern),
        where_(where),
        oniguruma_(dialect == RegexDialect::oniguruma),
        word_(oniguruma_ ? std::string(word_class) : std::string(word_class).append(joiners)) {}

  std::string run() {
    for (size_t i = 0; i < pattern_.size(); ++i) {
      if (pattern_[i] == '\\' && i + 1 < pattern_.size()) {
        if (!in_class_) item_ = out_.size();
        i = escape(i + 1);
      } else if (in_class_) {
        in_class(i);
      } else {
        i = outside(i);
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what, std::string_view expected = "a pattern without it") const {
    base::fail(base::ExitCode::data, where_, ": the pattern \"", pattern_, "\" has ", what,
               ", which is not supported; expected ", expected);
  }
  // Translates the escape sequence whose backslash is before pattern_[i]. Returns the index of the last character of
  // the sequence.
  size_t escape(size_t i) {
    const char c = pattern_[i];
    first_ = false;
    after_set_ = c == 's' || c == 'w';
    if (after_set_) {
      const std::string_view set = c == 's' ? white_space : word_;
      if (in_class_) {
        out_ += set;
      } else {
        out_.append("[").append(set).append("]");
      }
    } else if ((c == 'S' || c == 'W') && !in_class_) {
      out_.append("[^").append(c == 'S' ? white_space : word_).append("]");
    } else if (c == 'S' || c == 'W') {
      refuse(base::cat("\\", c, " in a class"), base::cat("\\", c, " outside of classes"));
    } else if ((c == 'b' || c == 'B') && !in_class_) {
      word_boundary(c == 'b');
    } else if (c == 'v') {
      out_ += "\\x0B";
    } else if (c == 'p' || c == 'P') {
      return property(i);
    } else if (c == 'x') {
      return code(i);
    } else if (std::string_view("EGHKNQRVXYghoy").find(c) != std::string_view::npos) {
      refuse(base::cat("\\", c));
    } else {
      out_ += '\\';
      out_ += c;
    }
    return i;
  }
  void word_boundary(bool boundary) {
    const std::string is = base::cat("[", word_, "]");
    const std::string_view one = boundary ? "!" : "=", other = boundary ? "=" : "!";
    out_.append(base::cat("(?:(?<=", is, ")(?", one, is, ")|(?<!", is, ")(?", other, is, "))"));
  }
  // Copies \p{...} or \P{...}, whose p or P is pattern_[i]. Adds "sc:" to the name of a script, because PCRE2 also
  // matches the script's extensions without this prefix. Returns the index of the last character copied.
  size_t property(size_t i) {
    out_.append("\\").append(1, pattern_[i]);
    const size_t end = pattern_.find('}', i);
    if (i + 1 >= pattern_.size() || pattern_[i + 1] != '{' || end == pattern_.npos) return i;
    const bool negated = pattern_.substr(i + 2, 1) == "^";
    const size_t begin = negated ? i + 3 : i + 2;
    const std::string name(pattern_.substr(begin, end - begin));
    const bool script = name.size() > 2 && u_getPropertyValueEnum(UCHAR_SCRIPT, name.c_str()) != UCHAR_INVALID_CODE;
    out_ += base::cat(negated ? "{^" : "{", script ? "sc:" : "", name, "}");
    return end;
  }
  // Copies \x{...} or \xHH, whose x is pattern_[i]. Returns the index of the last character copied.
  size_t code(size_t i) {
    size_t end = i + 1;
    if (end < pattern_.size() && pattern_[end] == '{') {
      end = std::min(pattern_.find('}', end), pattern_.size() - 1) + 1;
    } else {
      end = std::min(pattern_.find_first_not_of("0123456789ABCDEFabcdef", end), std::min(i + 3, pattern_.size()));
    }
    out_.append("\\").append(pattern_.substr(i, end - i));
    return end - 1;
  }

  // Translates pattern_[i], which is not in a class. Returns the index of the last character that was read.
  size_t outside(size_t i) {
    const char c = pattern_[i];
    after_set_ = false;
    if (c == '{') return count(i);
    if (c == '*' || c == '+' || c == '?') {
      out_ += c;
      return i;
    }
    item_ = out_.size();
    if (c == '(') {
      groups_.push_back(item_);
      check_group(pattern_.substr(i + 1));
    } else if (c == ')' && !groups_.empty()) {
      item_ = groups_.back();
      groups_.pop_back();
    } else if (c == '[') {
      in_class_ = first_ = true;
    } else if (oniguruma_ && (c == '^' || c == '$')) {
      out_ += c == '^' ? "(?m:^)" : "(?m:$)";
      return i;
    }
    out_ += c;
    // A lead byte begins an item; the other bytes of a character continue the item.
    if ((static_cast<unsigned char>(c) & 0xc0) == 0x80) item_ = character_;
    character_ = item_;
    return i;
  }
  // Copies a count such as {1,3}. Also copies a following + or ? that repeats the counted part (in Oniguruma), and
  // encloses the counted part in a group.
  size_t count(size_t i) {
    size_t end = pattern_.find_first_not_of("0123456789,", i + 1);
    const bool counts = end != pattern_.npos && pattern_[end] == '}' && end > i + 1;
    if (counts && pattern_[i + 1] == ',')
      refuse(base::cat("the count ", pattern_.substr(i, end + 1 - i), " without a minimum"),
             base::cat("{0", pattern_.substr(i + 1, end - i)));
    if (!counts) {
      item_ = out_.size();
      out_ += '{';
      return i;
    }
    const std::string_view whole = pattern_.substr(i, end + 1 - i);
    out_ += whole;
    const char next = end + 1 < pattern_.size() ? pattern_[end + 1] : '\0';
    const bool repeats = next == '+' || (next == '?' && whole.find(',') == whole.npos);
    if (!oniguruma_ || !repeats) return end;
    out_ = base::cat(std::string_view(out_).substr(0, item_), "(?:", std::string_view(out_).substr(item_), ")", next);
    return end + 1;
  }
  // Refuses groups that PCRE2 interprets differently: verbs, comments, recursion, and all options except i (in Rust: i,
  // m and s).
  void check_group(std::string_view rest) const {
    if (rest.starts_with('*')) refuse("(*");
    if (!rest.starts_with('?')) return;
    rest.remove_prefix(1);
    if (rest.empty() || std::string_view("#&+-^0123456789CRP").find(rest[0]) == std::string_view::npos) {
      const size_t end = rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz-");
      const bool options = end != rest.npos && end > 0 && (rest[end] == ':' || rest[end] == ')');
      const std::string_view same = oniguruma_ ? "i-" : "ims-";
      if (options && rest.substr(0, end).find_first_not_of(same) != std::string_view::npos)
        refuse(base::cat("(?", rest.substr(0, end + 1)));
      return;
    }
    if (rest.starts_with("P<") || rest.starts_with("-i")) return;
    refuse(base::cat("(?", rest.substr(0, 1)));
  }

  // Copies pattern_[i], which is in a class.
  void in_class(size_t i) {
    const char c = pattern_[i];
    const char next = i + 1 < pattern_.size() ? pattern_[i + 1] : '\0';
    if (after_set_ && c == '-') out_ += '\\';  // the '-' is literal: a set such as \s cannot begin a range
    after_set_ = false;
    out_ += c;
    if (first_ && c == '^') return;
    if (c == ']' && !first_) {
      in_class_ = false;
      return;
    }
    first_ = false;
    if (c == '[' && next != ':') refuse(base::cat("a class in a class at byte ", i));
    if (c == '[') return posix_class(i);
    if (c == next && (c == '&' || c == '~' || c == '-')) refuse(base::cat("the set operation ", c, c, " in a class"));
  }
  // Refuses a class such as [:alpha:], because its end would be read as the end of the enclosing class.
  void posix_class(size_t i) const {
    const size_t end = pattern_.find(":]", i);
    if (end != pattern_.npos)
      refuse(base::cat("the named class ", pattern_.substr(i, end + 2 - i)), "characters and ranges, such as a-zA-Z");
  }

  std::string_view pattern_, where_;
  bool oniguruma_;
  std::string word_;
  std::string out_;
  std::vector<size_t> groups_;       // start of each open group in out_
  size_t item_ = 0, character_ = 0;  // start in out_ of the last item, and of the last character
  bool in_class_ = false;
  bool first_ = false;      // true at the beginning of a class, after [ or [^
  bool after_set_ = false;  // true if \s or \w has just been read
};

}  // namespace

std::string pcre_pattern(std::string_view pattern, std::string_view where, RegexDialect dialect) {
  return Translation(pattern, where, dialect).run();
}

}  // namespace hexad::data
