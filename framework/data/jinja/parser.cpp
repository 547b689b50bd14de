#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>

#include "framework/config/words.h"
#include "framework/data/jinja/syntax.h"

namespace hexad::data::jinja {
namespace {

using Kind = ExpressionKind;

constexpr std::array<std::string_view, 7> reserved{"and", "or", "not", "in", "is", "if", "else"};

class Parser {
 public:
  Parser(std::vector<Token> tokens, const std::string& path) : tokens_(std::move(tokens)), path_(path) {}

  std::vector<Statement> run() { return body({}, 1, ""); }

 private:
  // Counts blocks and brackets within each other, so that recursion is limited.
  class Nested {
   public:
    explicit Nested(Parser& parser) : parser_(parser) {
      if (++parser_.nested_ > most_nested) parser_.refuse_depth(parser_.now().line);
    }
    ~Nested() { --parser_.nested_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Parser& parser_;
  };

  // --- Tokens

  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool is(TokenKind kind, std::string_view text) const { return now().kind == kind && now().text == text; }
  bool is_symbol(std::string_view text) const { return is(TokenKind::symbol, text); }
  bool is_word(std::string_view text) const { return is(TokenKind::name, text); }
  bool skip(TokenKind kind, std::string_view text) {
    if (!is(kind, text)) return false;
    ++at_;
    return true;
  }
  bool skip_symbol(std::string_view text) { return skip(TokenKind::symbol, text); }
  bool skip_word(std::string_view text) { return skip(TokenKind::name, text); }
  [[noreturn]] void refuse_token(std::string_view expected) const {
    refuse_at(path_, now().line, "found ",
              now().kind == TokenKind::end ? now().text : base::cat("'", config::shown(now().text), "'"), ", expected ",
              expected);
  }
  [[noreturn]] void refuse_depth(int line) const {
    refuse_at(path_, line, "nests blocks or expressions more than ", most_nested, " times, the maximum");
  }
  void expect_symbol(std::string_view text) {
    if (!skip_symbol(text)) refuse_token(text);
  }
  std::string take_name(std::string_view expected) {
    if (now().kind != TokenKind::name || std::ranges::find(reserved, now().text) != reserved.end())
      refuse_token(expected);
    return tokens_[at_++].text;
  }
  void end_tag() {
    if (now().kind != TokenKind::end_tag) refuse_token("%}");
    ++at_;
  }

  // --- Statements

  // Parses until a tag of `ends`, and returns before it. If `ends` is empty, parses the whole template.
  std::vector<Statement> body(std::span<const std::string_view> ends, int line, std::string_view tag) {
    const Nested nested(*this);
    std::vector<Statement> all;
    while (true) {
      const Token& token = now();
      if (token.kind == TokenKind::end) {
        if (!ends.empty()) refuse_at(path_, line, "{% ", tag, " %} is not closed, expected {% ", ends.back(), " %}");
        return all;
      }
      if (token.kind == TokenKind::text) {
        all.push_back({.kind = StatementKind::text, .line = token.line, .text = Text(token.text, Origin::model)});
        ++at_;
      } else if (token.kind == TokenKind::begin_output) {
        all.push_back(output());
      } else if (std::ranges::find(ends, ahead().text) != ends.end()) {
        return all;
      } else {
        all.push_back(tag_statement());
      }
    }
  }

  Statement output() {
    Statement statement{.kind = StatementKind::output, .line = tokens_[at_++].line};
    statement.expressions.push_back(expression());
    if (now().kind != TokenKind::end_output) refuse_token("}}");
    ++at_;
    return statement;
  }

  Statement tag_statement() {
    const int line = tokens_[at_++].line;
    const Token& name = now();
    if (skip_word("if")) return choice(line);
    if (skip_word("for")) return loop(line);
    if (skip_word("set")) return set(line);
    if (name.text.starts_with("end") || name.text == "else" || name.text == "elif")
      refuse_at(path_, line, "{% ", config::shown(name.text), " %} closes no open tag");
    refuse_at(path_, line, "the tag {% ", config::shown(name.text),
              " %} is not supported; supported tags: if, elif, else, for, set");
  }

  Statement choice(int line) {
    static constexpr std::array<std::string_view, 3> inner{"elif", "else", "endif"};
    static constexpr std::array<std::string_view, 1> last{"endif"};
    Statement statement{.kind = StatementKind::choice, .line = line};
    do {
      statement.expressions.push_back(disjunction());
      end_tag();
      statement.bodies.push_back(body(inner, line, "if"));
      ++at_;  // the {% of the next tag
    } while (skip_word("elif"));
    if (skip_word("else")) {
      end_tag();
      statement.bodies.push_back(body(last, line, "if"));
      ++at_;
    }
    ++at_;  // endif
    end_tag();
    return statement;
  }

  Statement loop(int line) {
    static constexpr std::array<std::string_view, 2> inner{"else", "endfor"};
    static constexpr std::array<std::string_view, 1> last{"endfor"};
    Statement statement{.kind = StatementKind::loop, .line = line};
    do {
      statement.targets.push_back(take_name("a variable of the loop"));
    } while (skip_symbol(","));
    if (!skip_word("in")) refuse_token("in");
    statement.expressions.push_back(disjunction());
    if (skip_word("if")) statement.expressions.push_back(expression());
    if (is_word("recursive")) refuse_at(path_, line, "recursive loops are not supported");
    end_tag();
    statement.bodies.push_back(body(inner, line, "for"));
    ++at_;
    if (skip_word("else")) {
      end_tag();
      statement.bodies.push_back(body(last, line, "for"));
      ++at_;
    }
    ++at_;  // endfor
    end_tag();
    return statement;
  }

  Statement set(int line) {
    Statement statement{.kind = StatementKind::set, .line = line};
    statement.targets.push_back(take_name("a variable"));
    if (skip_symbol(".")) statement.targets.push_back(take_name("a member of the namespace"));
    if (!skip_symbol("="))
      refuse_at(path_, line, "{% set %} of blocks and of several variables is not supported, expected {% set ",
                config::shown(statement.targets.front()), " = ... %}");
    statement.expressions.push_back(expression());
    end_tag();
    return statement;
  }

  // --- Expressions, the weakest operator first

  Expression make(Kind kind, int line, std::vector<Expression> children, std::string name = {}) const {
    Expression made{.kind = kind, .line = line, .name = std::move(name), .children = std::move(children)};
    for (const Expression& child : made.children) made.depth = std::max(made.depth, child.depth + 1);
    if (made.depth > most_nested) refuse_depth(line);
    return made;
  }
  template <class... Children>
  Expression make_of(Kind kind, int line, std::string name, Children&&... children) const {
    std::vector<Expression> all;
    (all.push_back(std::forward<Children>(children)), ...);
    return make(kind, line, std::move(all), std::move(name));
  }
  static Expression literal(int line, Value value) {
    return {.kind = Kind::literal, .line = line, .value = std::move(value)};
  }

  Expression expression() {
    const Nested nested(*this);
    Expression value = disjunction();
    while (is_word("if")) {
      const int line = tokens_[at_++].line;
      Expression condition = disjunction();
      Expression otherwise = skip_word("else") ? expression() : literal(line, undefined("the missing else"));
      value = make_of(Kind::conditional, line, "", std::move(condition), std::move(value), std::move(otherwise));
    }
    return value;
  }

  // Parses operands that `word` joins.
  template <class Operand>
  Expression joined(Kind kind, TokenKind token, std::string_view word, Operand operand) {
    const int line = now().line;
    std::vector<Expression> operands;
    operands.push_back(operand());
    while (skip(token, word)) operands.push_back(operand());
    if (operands.size() == 1) return std::move(operands.front());
    return make(kind, line, std::move(operands));
  }
  Expression disjunction() {
    return joined(Kind::disjunction, TokenKind::name, "or", [&] { return conjunction(); });
  }
  Expression conjunction() {
    return joined(Kind::conjunction, TokenKind::name, "and", [&] { return negation(); });
  }
  Expression negation() {
    const int line = now().line;
    if (!skip_word("not")) return comparison();
    const Nested nested(*this);
    return make_of(Kind::negation, line, "", negation());
  }

  // Returns the comparison at the current position and skips it; empty if there is none.
  std::string take_comparison() {
    for (std::string_view symbol : {"==", "!=", "<=", ">=", "<", ">"})
      if (skip_symbol(symbol)) return std::string(symbol);
    if (skip_word("in")) return "in";
    if (!is_word("not") || ahead().kind != TokenKind::name || ahead().text != "in") return {};
    at_ += 2;
    return "not in";
  }
  Expression comparison() {
    const int line = now().line;
    std::vector<Expression> operands;
    std::vector<std::string> operators;
    operands.push_back(sum());
    for (std::string found = take_comparison(); !found.empty(); found = take_comparison()) {
      operators.push_back(std::move(found));
      operands.push_back(sum());
    }
    if (operators.empty()) return std::move(operands.front());
    Expression compare = make(Kind::compare, line, std::move(operands));
    compare.names = std::move(operators);
    return compare;
  }

  // Parses operands between which `symbols` stand, from left to right.
  template <class Operand>
  Expression binary(std::span<const std::string_view> symbols, Operand operand) {
    Expression left = operand();
    while (now().kind == TokenKind::symbol && std::ranges::find(symbols, now().text) != symbols.end()) {
      const Token& symbol = tokens_[at_++];
      Expression right = operand();
      left = make_of(Kind::binary, symbol.line, symbol.text, std::move(left), std::move(right));
    }
    return left;
  }
  Expression sum() {
    static constexpr std::array<std::string_view, 2> symbols{"+", "-"};
    return binary(symbols, [&] { return joined(Kind::join, TokenKind::symbol, "~", [&] { return product(); }); });
  }
  Expression product() {
    static constexpr std::array<std::string_view, 3> symbols{"*", "//", "%"};
    return binary(symbols, [&] { return unary(true); });
  }
  Expression unary(bool with_filters) {
    Expression value = postfix(signed_primary());
    return with_filters ? filtered(std::move(value)) : value;
  }

  Expression signed_primary() {
    const int line = now().line;
    if (!is_symbol("-") && !is_symbol("+")) return primary();
    const Nested nested(*this);
    return tokens_[at_++].text == "+" ? unary(false) : make_of(Kind::negate, line, "", unary(false));
  }
  Expression primary() {
    const Token& token = now();
    if (token.kind == TokenKind::text_literal) {
      std::string text;
      while (now().kind == TokenKind::text_literal) text += tokens_[at_++].text;
      return literal(token.line, text_value(std::move(text), Origin::model));
    }
    if (token.kind == TokenKind::integer) {
      int64_t value = 0;
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
      ++at_;
      return literal(token.line, number(value));
    }
    if (skip_symbol("(")) return parenthesized(token.line);
    if (skip_symbol("[")) return make(Kind::list, token.line, items("]"));
    if (is_symbol("{")) refuse_at(path_, token.line, "dictionaries {...} are not supported");
    const std::string name = take_name("an expression");
    if (name == "true" || name == "True") return literal(token.line, boolean(true));
    if (name == "false" || name == "False") return literal(token.line, boolean(false));
    if (name == "none" || name == "None") return literal(token.line, none());
    return make(Kind::name, token.line, {}, name);
  }
  // A comma in parentheses makes a tuple, which behaves like a list.
  Expression parenthesized(int line) {
    if (skip_symbol(")")) return make(Kind::list, line, {});
    Expression first = expression();
    if (skip_symbol(")")) return first;
    if (!skip_symbol(",")) refuse_token("')' or ','");
    std::vector<Expression> all;
    all.push_back(std::move(first));
    for (Expression& item : items(")")) all.push_back(std::move(item));
    return make(Kind::list, line, std::move(all));
  }
  std::vector<Expression> items(std::string_view close) {
    std::vector<Expression> all;
    while (!skip_symbol(close)) {
      all.push_back(expression());
      if (skip_symbol(close)) break;
      expect_symbol(",");
    }
    return all;
  }

  Expression postfix(Expression value) {
    while (true) {
      const int line = now().line;
      if (skip_symbol(".")) {
        value = make_of(Kind::attribute, line, take_name("a name after '.'"), std::move(value));
      } else if (skip_symbol("[")) {
        value = subscript(line, std::move(value));
      } else if (skip_symbol("(")) {
        value = with_arguments(make_of(Kind::call, line, "", std::move(value)));
      } else {
        return value;
      }
    }
  }
  Expression subscript(int line, Expression object) {
    std::array<Expression, 3> bounds;  // begin, end, step
    for (Expression& bound : bounds) bound = literal(line, none());
    size_t colons = 0;
    if (is_symbol("]")) refuse_token("a key or an index");
    while (!skip_symbol("]")) {
      if (skip_symbol(":")) {
        if (++colons > 2) refuse_at(path_, line, "a slice has more than two ':'");
        continue;
      }
      bounds[colons] = expression();
      if (!is_symbol(":") && !is_symbol("]")) refuse_token("']'");
    }
    if (colons > 0)
      return make_of(Kind::slice, line, "", std::move(object), std::move(bounds[0]), std::move(bounds[1]),
                     std::move(bounds[2]));
    return make_of(Kind::subscript, line, "", std::move(object), std::move(bounds[0]));
  }

  // Parses the arguments of a call or filter, up to ")".
  Expression with_arguments(Expression call) {
    std::vector<Expression> children = std::move(call.children);
    std::vector<std::string> names;
    while (!skip_symbol(")")) {
      const bool named = now().kind == TokenKind::name && ahead().kind == TokenKind::symbol && ahead().text == "=";
      names.push_back(named ? take_name("a keyword") : std::string());
      if (named) ++at_;
      children.push_back(expression());
      if (skip_symbol(")")) break;
      expect_symbol(",");
    }
    Expression made = make(call.kind, call.line, std::move(children), std::move(call.name));
    made.names = std::move(names);
    return made;
  }

  Expression filtered(Expression value) {
    while (true) {
      const int line = now().line;
      if (skip_symbol("|")) {
        value = make_of(Kind::filter, line, take_name("the name of a filter"), std::move(value));
        if (skip_symbol("(")) value = with_arguments(std::move(value));
      } else if (skip_word("is")) {
        const bool inverted = skip_word("not");
        value = make_of(Kind::test, line, test_name(), std::move(value));
        if (inverted) value = make_of(Kind::negation, line, "", std::move(value));
      } else {
        return value;
      }
    }
  }
  // Tests may have names of operators.
  std::string test_name() {
    if (skip_word("in")) return "in";
    std::string name = take_name("the name of a test");
    if (is_symbol("(") || now().kind == TokenKind::text_literal || now().kind == TokenKind::integer)
      refuse_at(path_, now().line, "the test '", config::shown(name), "' with arguments is not supported");
    return name;
  }

  std::vector<Token> tokens_;
  const std::string& path_;
  size_t at_ = 0;
  int nested_ = 0;
};

}  // namespace

std::vector<Statement> parse(std::string_view source, const std::string& path) {
  if (source.size() > largest_template)
    base::fail(base::ExitCode::data, path, ": has ", source.size(), " bytes, expected a chat template of at most ",
               largest_template);
  return Parser(tokens_of(source, path), path).run();
}

}  // namespace hexad::data::jinja
