#include <algorithm>
#include <array>
#include <optional>

#include "framework/config/words.h"
#include "framework/data/jinja/syntax.h"

namespace hexad::data::jinja {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
constexpr bool continues_name(char c) { return begins_name(c) || is_digit(c); }

// Appends a code point as UTF-8. The code point must be below 0x10000.
void append_code_point(std::string& text, uint32_t code) {
  const auto byte = [&](uint32_t value) { text += static_cast<char>(static_cast<unsigned char>(value)); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) {
    byte(0xC0 | code >> 6);
  } else {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
  }
  byte(0x80 | (code & 0x3F));
}

std::optional<uint32_t> hexadecimal(std::string_view digits) {
  uint32_t value = 0;
  for (const char c : digits) {
    const bool lower = c >= 'a' && c <= 'f', upper = c >= 'A' && c <= 'F';
    if (!is_digit(c) && !lower && !upper) return std::nullopt;
    value = value * 16 + static_cast<uint32_t>(is_digit(c) ? c - '0' : lower ? c - 'a' + 10 : c - 'A' + 10);
  }
  return value;
}

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& path) : source_(source), path_(path) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const size_t open = next_mark();
      const std::string_view text = source_.substr(at_, open - at_);
      if (open == source_.size()) {
        add_text(text);
        move_to(open);
        break;
      }
      const char kind = source_[open + 1];
      const char sign = open + 2 < source_.size() ? source_[open + 2] : ' ';
      add_text(without_space_before_mark(text, kind, sign));
      move_to(open);
      const int line = line_;
      move_to(open + (sign == '-' || sign == '+' ? 3 : 2));
      if (kind == '#') {
        skip_comment(line);
      } else {
        lex_mark(kind == '%', line);
      }
    }
    tokens_.push_back({TokenKind::end, "the end of the template", line_});
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return source_.substr(at_); }
  size_t next_mark() const {
    for (size_t i = at_; i + 1 < source_.size(); ++i)
      if (source_[i] == '{' && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) return i;
    return source_.size();
  }
  void move_to(size_t position) {
    line_ += static_cast<int>(std::ranges::count(source_.substr(at_, position - at_), '\n'));
    at_ = position;
  }
  void add(TokenKind kind, std::string_view text) { tokens_.push_back({kind, std::string(text), line_}); }
  void add_text(std::string_view text) {
    if (!text.empty()) add(TokenKind::text, text);
  }

  // A minus removes all white space before the mark. Without a sign, white space before a tag or a comment is removed
  // if nothing else precedes the mark in its line (lstrip_blocks).
  std::string_view without_space_before_mark(std::string_view text, char kind, char sign) const {
    const size_t space = trailing_white_space(text);
    if (sign == '-') return text.substr(0, text.size() - space);
    if (sign == '+' || kind == '{') return text;
    const size_t newline = text.rfind('\n');
    if (newline == text.npos && !at_line_start_) return text;
    const size_t line = newline == text.npos ? 0 : newline + 1;
    return text.size() - line <= space ? text.substr(0, line) : text;
  }

  // Moves past the end of a mark. A minus removes all white space after the mark. Without a sign, a tag or a comment
  // removes the newline that follows it (trim_blocks).
  void end_mark(size_t bytes, char sign, bool is_output) {
    size_t end = at_ + bytes;
    if (sign == '-') {
      end += leading_white_space(source_.substr(end));
    } else if (sign != '+' && !is_output && end < source_.size() && source_[end] == '\n') {
      ++end;
    }
    at_line_start_ = source_[end - 1] == '\n';
    move_to(end);
  }

  void skip_comment(int line) {
    const size_t close = source_.find("#}", at_);
    if (close == source_.npos) refuse_at(path_, line, "{# is not closed, expected #}");
    const char sign = close > at_ ? source_[close - 1] : ' ';
    move_to(close);
    end_mark(2, sign, false);
  }

  void lex_mark(bool tag, int line) {
    const std::string_view close = tag ? "%}" : "}}";
    tokens_.push_back({tag ? TokenKind::begin_tag : TokenKind::begin_output, tag ? "{%" : "{{", line});
    int open_brackets = 0;
    while (true) {
      move_to(at_ + leading_white_space(rest()));
      if (at_ == source_.size())
        refuse_at(path_, line, tag ? "{% is not closed, expected %}" : "{{ is not closed, expected }}");
      const char first = source_[at_];
      const bool has_sign = (first == '-' || (tag && first == '+')) && rest().substr(1).starts_with(close);
      if (open_brackets == 0 && (has_sign || rest().starts_with(close))) {
        add(tag ? TokenKind::end_tag : TokenKind::end_output, close);
        return end_mark(has_sign ? 3 : 2, has_sign ? first : ' ', !tag);
      }
      if (first == '(' || first == '[' || first == '{') ++open_brackets;
      if (first == ')' || first == ']' || first == '}') --open_brackets;
      lex_token(first);
    }
  }

  void lex_token(char first) {
    if (first == '"' || first == '\'') return lex_string(first);
    size_t end = at_ + 1;
    if (begins_name(first)) {
      while (end < source_.size() && continues_name(source_[end])) ++end;
      if (end - at_ > longest_name)
        refuse_at(path_, line_, "a name has ", end - at_, " bytes, expected at most ", longest_name);
      return take(TokenKind::name, end);
    }
    if (is_digit(first)) {
      while (end < source_.size() && is_digit(source_[end])) ++end;
      const size_t digits = end - at_;
      while (end < source_.size() && (continues_name(source_[end]) || source_[end] == '.')) ++end;
      if (end > at_ + digits)
        refuse_at(path_, line_, "found the number '", config::shown(source_.substr(at_, end - at_)),
                  "', expected a whole number");
      if (digits > 18) refuse_at(path_, line_, "a number has ", digits, " digits, expected at most 18");
      return take(TokenKind::integer, end);
    }
    lex_symbol();
  }

  void take(TokenKind kind, size_t end) {
    add(kind, source_.substr(at_, end - at_));
    move_to(end);
  }

  void lex_symbol() {
    static constexpr std::array<std::string_view, 25> symbols{"==", "!=", "<=", ">=", "//", "+",  "-", "*", "%",
                                                              "~",  "<",  ">",  "=",  "(",  ")",  "[", "]", "{",
                                                              "}",  ",",  ".",  ":",  "|",  "**", "/"};
    static constexpr size_t supported = 23;  // the remaining symbols are recognised, but not supported
    size_t best = symbols.size();
    for (size_t i = 0; i < symbols.size(); ++i)
      if (rest().starts_with(symbols[i]) && (best == symbols.size() || symbols[i].size() > symbols[best].size()))
        best = i;
    if (best < supported) return take(TokenKind::symbol, at_ + symbols[best].size());
    refuse_at(path_, line_, "'", config::shown(best == symbols.size() ? rest().substr(0, 1) : symbols[best]),
              "' is not supported; supported operators: + - * // % ~ == != < <= > >= and or not in is if");
  }

  void lex_string(char quote) {
    const int line = line_;
    std::string text;
    size_t at = at_ + 1;
    while (at < source_.size() && source_[at] != quote) {
      if (source_[at] == '\\') {
        at = lex_escape(at + 1, text);
      } else {
        text += source_[at++];
      }
    }
    if (at >= source_.size())
      refuse_at(path_, line, "a text that begins with ", quote, " is not closed, expected ", quote);
    move_to(at + 1);
    tokens_.push_back({TokenKind::text_literal, std::move(text), line});
  }

  // Appends the text of the escape sequence whose backslash is before `at`. An escaped newline adds nothing; a
  // backslash before an unknown character remains, like in Python. Returns the position after the sequence. Throws
  // Error(data) for sequences that are not supported, such as \N.
  size_t lex_escape(size_t at, std::string& text) const {
    static constexpr std::string_view letters = "ntrbfva\\'\"", meanings = "\n\t\r\b\f\v\a\\'\"";
    if (at >= source_.size()) return at;
    const char c = source_[at];
    if (const size_t known = letters.find(c); known != letters.npos) {
      text += meanings[known];
      return at + 1;
    }
    if (c == '\n') return at + 1;
    if (c == 'x' || c == 'u') {
      const size_t digits = c == 'x' ? 2 : 4;
      const std::string_view found = source_.substr(at + 1, digits);
      const auto code = found.size() == digits ? hexadecimal(found) : std::nullopt;
      if (!code || (*code >= 0xD800 && *code < 0xE000))
        refuse_at(path_, line_, "\\", c, config::shown(found), " is not a character, expected ", digits,
                  " hexadecimal digits");
      append_code_point(text, *code);
      return at + 1 + digits;
    }
    if (c == 'N' || c == 'U' || is_digit(c))
      refuse_at(path_, line_, "the escape sequence \\", c, " is not supported, expected \\xHH or \\uHHHH");
    text += '\\';  // like in Python, a backslash before another character remains
    text += c;
    return at + 1;
  }

  std::string_view source_;
  const std::string& path_;
  size_t at_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;  // true if the position is the first of a line
  std::vector<Token> tokens_;
};

// Returns the source with \n for every line end, as Jinja reads it, and without the last line end.
std::string normalized(std::string_view source) {
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    text += source[i] == '\r' ? '\n' : source[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

std::vector<Token> tokens_of(std::string_view source, const std::string& path) {
  const std::string text = normalized(source);
  return Lexer(text, path).run();
}

}  // namespace hexad::data::jinja
