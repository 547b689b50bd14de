// Parser of the expressions of chat templates.
#pragma once

#include "framework/data/jinja/syntax.h"
#include "framework/data/jinja/token_cursor.h"

namespace hexad::data::jinja {

/// Parses an expression at the cursor and moves the cursor past the expression. Throws Error(data) with path and line
/// if a part of the expression is not supported.
Expression parse_expression(TokenCursor& cursor);
/// Like parse_expression(), but without `a if b else c`.
Expression parse_condition(TokenCursor& cursor);

}  // namespace hexad::data::jinja
