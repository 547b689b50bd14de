// Position in the tokens of a chat template, for its parsers.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/config/words.h"
#include "framework/data/jinja/syntax.h"

namespace hexad::data::jinja {

class TokenCursor {
 public:
  /// Counts a nested block or operand as open during the lifetime of this object. The constructor throws Error(data) if
  /// more than max_nested blocks and operands are open, so that recursion is limited.
  class Nested {
   public:
    explicit Nested(TokenCursor& cursor) : cursor_(cursor) {
      if (++cursor_.nested_ > max_nested) cursor_.refuse_depth(cursor_.now().line);
    }
    ~Nested() { --cursor_.nested_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    TokenCursor& cursor_;
  };

  /// Starts at the first token. The last token must be of kind `end`. `path` must outlive this object.
  TokenCursor(std::vector<Token> tokens, const std::string& path) : tokens_(std::move(tokens)), path_(path) {}

  const std::string& path() const { return path_; }
  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  /// Moves to the next token and returns the previous token, which remains valid.
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is(TokenKind kind, std::string_view text) const { return now().kind == kind && now().text == text; }
  bool is_symbol(std::string_view text) const { return is(TokenKind::symbol, text); }
  bool is_word(std::string_view text) const { return is(TokenKind::name, text); }
  /// Moves past the current token and returns true if it has this kind and text. Otherwise returns false.
  bool skip(TokenKind kind, std::string_view text) {
    if (!is(kind, text)) return false;
    take();
    return true;
  }
  bool skip_symbol(std::string_view text) { return skip(TokenKind::symbol, text); }
  bool skip_word(std::string_view text) { return skip(TokenKind::name, text); }
  void expect_symbol(std::string_view text) {
    if (!skip_symbol(text)) refuse_token(text);
  }
  /// Moves past a name that is not a reserved word, and returns it. `expected` is for messages.
  std::string take_name(std::string_view expected) {
    static constexpr std::array<std::string_view, 7> reserved{"and", "or", "not", "in", "is", "if", "else"};
    if (now().kind != TokenKind::name || std::ranges::find(reserved, now().text) != reserved.end())
      refuse_token(expected);
    return take().text;
  }

  [[noreturn]] void refuse_token(std::string_view expected) const {
    refuse_at(path_, now().line, "found ",
              now().kind == TokenKind::end ? now().text : base::cat("'", config::shown(now().text), "'"), ", expected ",
              expected);
  }
  [[noreturn]] void refuse_depth(int line) const {
    refuse_at(path_, line, "blocks or expressions are nested more than ", max_nested, " levels deep, the maximum");
  }

 private:
  std::vector<Token> tokens_;
  const std::string& path_;
  size_t at_ = 0;
  int nested_ = 0;
};

}  // namespace hexad::data::jinja
