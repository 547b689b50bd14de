#include "framework/data/jinja/expression_parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>

namespace hexad::data::jinja {
namespace {

using Kind = ExpressionKind;

// A recursive descent parser. Each level of precedence has a function. expression() is the function of the weakest
// operator.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenCursor& cursor) : cursor_(cursor) {}

  Expression make(Kind kind, int line, std::vector<Expression> children, std::string name = {}) const {
    Expression made{.kind = kind, .line = line, .name = std::move(name), .children = std::move(children)};
    for (const Expression& child : made.children) made.depth = std::max(made.depth, child.depth + 1);
    if (made.depth > max_nested) cursor_.refuse_depth(line);
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
    const TokenCursor::Nested nested(cursor_);
    Expression value = disjunction();
    while (cursor_.is_word("if")) {
      const int line = cursor_.take().line;
      Expression condition = disjunction();
      Expression otherwise = cursor_.skip_word("else") ? expression() : literal(line, undefined("the missing else"));
      value = make_of(Kind::conditional, line, "", std::move(condition), std::move(value), std::move(otherwise));
    }
    return value;
  }

  // Parses operands that `word` joins.
  template <class Operand>
  Expression joined(Kind kind, std::string_view word, Operand operand) {
    const int line = cursor_.now().line;
    std::vector<Expression> operands;
    operands.push_back(operand());
    while (cursor_.skip_word(word)) operands.push_back(operand());
    if (operands.size() == 1) return std::move(operands.front());
    return make(kind, line, std::move(operands));
  }
  Expression disjunction() {
    return joined(Kind::disjunction, "or", [&] { return conjunction(); });
  }
  Expression conjunction() {
    return joined(Kind::conjunction, "and", [&] { return negation(); });
  }
  Expression negation() {
    const int line = cursor_.now().line;
    if (!cursor_.skip_word("not")) return comparison();
    const TokenCursor::Nested nested(cursor_);
    return make_of(Kind::negation, line, "", negation());
  }

  // Skips the comparison operator at the current position and returns it; empty if there is none.
  std::string take_comparison() {
    for (std::string_view symbol : {"==", "!=", "<=", ">=", "<", ">"})
      if (cursor_.skip_symbol(symbol)) return std::string(symbol);
    if (cursor_.skip_word("in")) return "in";
    if (!cursor_.is_word("not") || cursor_.ahead().kind != TokenKind::name || cursor_.ahead().text != "in") return {};
    cursor_.take();
    cursor_.take();
    return "not in";
  }
  Expression comparison() {
    const int line = cursor_.now().line;
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

  // Parses operands joined by `symbols`, from left to right.
  template <class Operand>
  Expression binary(std::span<const std::string_view> symbols, Operand operand) {
    Expression left = operand();
    while (cursor_.now().kind == TokenKind::symbol && std::ranges::find(symbols, cursor_.now().text) != symbols.end()) {
      const Token& symbol = cursor_.take();
      Expression right = operand();
      left = make_of(Kind::binary, symbol.line, symbol.text, std::move(left), std::move(right));
    }
    return left;
  }
  Expression sum() {
    static constexpr std::array<std::string_view, 2> symbols{"+", "-"};
    return binary(symbols, [&] { return concatenation(); });
  }
  Expression concatenation() {
    static constexpr std::array<std::string_view, 1> symbols{"~"};
    return binary(symbols, [&] { return product(); });
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
    if (!cursor_.is_symbol("-") && !cursor_.is_symbol("+")) return primary();
    const TokenCursor::Nested nested(cursor_);
    const Token& sign = cursor_.take();
    return make_of(Kind::binary, sign.line, sign.text, literal(sign.line, number(0)), unary(false));
  }
  Expression primary() {
    const Token& token = cursor_.now();
    if (token.kind == TokenKind::text_literal) {
      std::string text;
      while (cursor_.now().kind == TokenKind::text_literal) text += cursor_.take().text;
      return literal(token.line, text_value(std::move(text), Origin::model));
    }
    if (token.kind == TokenKind::integer) {
      int64_t value = 0;
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
      cursor_.take();
      return literal(token.line, number(value));
    }
    if (cursor_.skip_symbol("(")) return parenthesized(token.line);
    if (cursor_.skip_symbol("[")) return make(Kind::list, token.line, items("]"));
    if (cursor_.is_symbol("{"))
      refuse_at(cursor_.path(), token.line,
                "dictionaries {...} are not supported, expected a list [...] or a namespace(...)");
    const std::string name = cursor_.take_name("an expression");
    if (name == "true" || name == "True") return literal(token.line, boolean(true));
    if (name == "false" || name == "False") return literal(token.line, boolean(false));
    if (name == "none" || name == "None") return literal(token.line, none());
    return make(Kind::name, token.line, {}, name);
  }
  // A comma in parentheses makes a tuple, which behaves like a list.
  Expression parenthesized(int line) {
    if (cursor_.skip_symbol(")")) return make(Kind::list, line, {});
    Expression first = expression();
    if (cursor_.skip_symbol(")")) return first;
    if (!cursor_.skip_symbol(",")) cursor_.refuse_token("')' or ','");
    std::vector<Expression> all;
    all.push_back(std::move(first));
    for (Expression& item : items(")")) all.push_back(std::move(item));
    return make(Kind::list, line, std::move(all));
  }
  std::vector<Expression> items(std::string_view close) {
    std::vector<Expression> all;
    while (!cursor_.skip_symbol(close)) {
      all.push_back(expression());
      if (cursor_.skip_symbol(close)) break;
      cursor_.expect_symbol(",");
    }
    return all;
  }

  Expression postfix(Expression value) {
    while (true) {
      const int line = cursor_.now().line;
      if (cursor_.skip_symbol(".")) {
        value = make_of(Kind::attribute, line, cursor_.take_name("a name after '.'"), std::move(value));
      } else if (cursor_.skip_symbol("[")) {
        value = subscript(line, std::move(value));
      } else if (cursor_.skip_symbol("(")) {
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
    if (cursor_.is_symbol("]")) cursor_.refuse_token("a key or an index");
    while (!cursor_.skip_symbol("]")) {
      if (cursor_.skip_symbol(":")) {
        if (++colons > 2) refuse_at(cursor_.path(), line, "a slice has more than two ':', expected [BEGIN:END:STEP]");
        continue;
      }
      bounds[colons] = expression();
      if (!cursor_.is_symbol(":") && !cursor_.is_symbol("]")) cursor_.refuse_token("']'");
    }
    if (colons > 0)
      return make_of(Kind::slice, line, "", std::move(object), std::move(bounds[0]), std::move(bounds[1]),
                     std::move(bounds[2]));
    return make_of(Kind::subscript, line, "", std::move(object), std::move(bounds[0]));
  }

  // Parses the arguments of a call or filter and the ")" after them.
  Expression with_arguments(Expression call) {
    std::vector<Expression> children = std::move(call.children);
    std::vector<std::string> names;
    while (!cursor_.skip_symbol(")")) {
      const bool named = cursor_.now().kind == TokenKind::name && cursor_.ahead().kind == TokenKind::symbol &&
                         cursor_.ahead().text == "=";
      names.push_back(named ? cursor_.take_name("a keyword") : std::string());
      if (named) cursor_.take();
      children.push_back(expression());
      if (cursor_.skip_symbol(")")) break;
      cursor_.expect_symbol(",");
    }
    Expression made = make(call.kind, call.line, std::move(children), std::move(call.name));
    made.names = std::move(names);
    return made;
  }

  Expression filtered(Expression value) {
    while (true) {
      const int line = cursor_.now().line;
      if (cursor_.skip_symbol("|")) {
        value = make_of(Kind::filter, line, cursor_.take_name("the name of a filter"), std::move(value));
        if (cursor_.skip_symbol("(")) value = with_arguments(std::move(value));
      } else if (cursor_.skip_word("is")) {
        const bool inverted = cursor_.skip_word("not");
        value = make_of(Kind::test, line, test_name(), std::move(value));
        if (inverted) value = make_of(Kind::negation, line, "", std::move(value));
      } else {
        return value;
      }
    }
  }
  std::string test_name() {
    std::string name = cursor_.take_name("the name of a test");
    if (cursor_.is_symbol("(") || cursor_.now().kind == TokenKind::text_literal ||
        cursor_.now().kind == TokenKind::integer)
      refuse_at(cursor_.path(), cursor_.now().line, "the test '", config::shown(name),
                "' has arguments, expected a test without arguments");
    return name;
  }

  TokenCursor& cursor_;
};

}  // namespace

Expression parse_expression(TokenCursor& cursor) { return ExpressionParser(cursor).expression(); }

Expression parse_condition(TokenCursor& cursor) { return ExpressionParser(cursor).disjunction(); }

}  // namespace hexad::data::jinja
