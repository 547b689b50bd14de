// Syntax trees of chat templates.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/jinja/value.h"

namespace hexad::data::jinja {

enum class ExpressionKind : uint8_t {
  literal,      // value
  name,         // name
  list,         // children: items
  attribute,    // children: object; name
  subscript,    // children: object, key
  slice,        // children: object, begin, end, step; a missing bound is none
  call,         // children: callee, arguments; names
  filter,       // children: value, arguments; name, names
  test,         // children: value; name
  negation,     // children: operand (not)
  conjunction,  // children: operands (and)
  disjunction,  // children: operands (or)
  compare,      // children: operands; names: the operators between them
  binary,       // children: left, right; name: the operator. A sign is an operator whose left operand is 0
  conditional   // children: condition, value if true, value otherwise
};

struct Expression {
  ExpressionKind kind = ExpressionKind::literal;
  int line = 0;
  std::string name = {};
  Value value = {};
  std::vector<Expression> children = {};
  std::vector<std::string> names = {};  // calls and filters: keyword of each argument, empty if given by position;
                                        // comparisons: operators
  int depth = 1;                        // depth of nested expressions, including this one
};

enum class StatementKind : uint8_t {
  text,    // text: the characters between tags, written unchanged
  output,  // expressions: the value to write
  choice,  // expressions: conditions; bodies: one for each condition, and one more for else
  loop,    // expressions: list, and the condition of an `if`; bodies: of the loop, and of else; targets: variables
  scope,   // bodies: statements whose variables are local
  set,     // expressions: value; targets: variable, and the member of a namespace
  macro    // targets: name and parameters; expressions: defaults of the last parameters; bodies: its text
};

struct Statement {
  StatementKind kind;
  int line = 0;
  Text text = {};
  std::vector<Expression> expressions = {};
  std::vector<std::vector<Statement>> bodies = {};
  std::vector<std::string> targets = {};
};

enum class TokenKind : uint8_t {
  text,
  begin_output,
  end_output,
  begin_tag,
  end_tag,
  name,
  text_literal,
  integer,
  symbol,
  end
};

struct Token {
  TokenKind kind;
  std::string text;
  int line;
};

/// Divides the source of a template into tokens. White space around marks is removed by the rules of trim_blocks and
/// lstrip_blocks, two options of Jinja that `transformers` sets. Throws Error(data) that names `path` and the line if a
/// part of the source is not a supported token.
std::vector<Token> tokens_of(std::string_view source, const std::string& path);

/// Returns the statements of a template. Throws Error(data) that names `path` if the source is too long. Throws
/// Error(data) that names `path` and the line if a part is not supported. For an unsupported tag, the message lists the
/// supported tags.
std::vector<Statement> parse(std::string_view source, const std::string& path);

}  // namespace hexad::data::jinja
