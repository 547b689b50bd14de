#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "framework/config/words.h"
#include "framework/data/jinja/expression_parser.h"
#include "framework/data/jinja/syntax.h"
#include "framework/data/jinja/token_cursor.h"

namespace hexad::data::jinja {
namespace {

class Parser {
 public:
  Parser(std::vector<Token> tokens, const std::string& path) : cursor_(std::move(tokens), path) {}

  std::vector<Statement> run() { return body({}, 1, ""); }

 private:
  void end_tag() {
    if (cursor_.now().kind != TokenKind::end_tag) cursor_.refuse_token("%}");
    cursor_.take();
  }

  // Parses statements up to a tag whose name is in `ends`, and leaves this tag unread. Parses the whole template if
  // `ends` is empty.
  std::vector<Statement> body(std::span<const std::string_view> ends, int line, std::string_view tag) {
    const TokenCursor::Nested nested(cursor_);
    std::vector<Statement> all;
    while (true) {
      const Token& token = cursor_.now();
      if (token.kind == TokenKind::end) {
        if (!ends.empty())
          refuse_at(cursor_.path(), line, "{% ", tag, " %} is not closed, expected {% ", ends.back(), " %}");
        return all;
      }
      if (token.kind == TokenKind::text) {
        all.push_back({.kind = StatementKind::text, .line = token.line, .text = Text(token.text, Origin::model)});
        cursor_.take();
      } else if (token.kind == TokenKind::begin_output) {
        all.push_back(output());
      } else if (std::ranges::find(ends, cursor_.ahead().text) != ends.end()) {
        return all;
      } else {
        all.push_back(tag_statement());
      }
    }
  }

  Statement output() {
    Statement statement{.kind = StatementKind::output, .line = cursor_.take().line};
    statement.expressions.push_back(parse_expression(cursor_));
    if (cursor_.now().kind != TokenKind::end_output) cursor_.refuse_token("}}");
    cursor_.take();
    return statement;
  }

  Statement tag_statement() {
    const int line = cursor_.take().line;
    const Token& name = cursor_.now();
    if (cursor_.skip_word("if")) return choice(line);
    if (cursor_.skip_word("for")) return loop(line);
    if (cursor_.skip_word("set")) return set(line);
    if (cursor_.skip_word("macro")) return macro(line);
    if (cursor_.skip_word("generation")) return generation(line);
    if (name.text.starts_with("end") || name.text == "else" || name.text == "elif")
      refuse_at(cursor_.path(), line, "{% ", config::shown(name.text),
                " %} closes no open tag, expected its opening tag before it");
    refuse_at(cursor_.path(), line, "the tag {% ", config::shown(name.text),
              " %} is not supported; supported tags: if, elif, else, for, set, macro, generation");
  }

  Statement choice(int line) {
    static constexpr std::array<std::string_view, 3> inner{"elif", "else", "endif"};
    static constexpr std::array<std::string_view, 1> last{"endif"};
    Statement statement{.kind = StatementKind::choice, .line = line};
    do {
      statement.expressions.push_back(parse_condition(cursor_));
      end_tag();
      statement.bodies.push_back(body(inner, line, "if"));
      cursor_.take();  // the {% of the next tag
    } while (cursor_.skip_word("elif"));
    finish(statement, last, "if");
    return statement;
  }

  Statement loop(int line) {
    static constexpr std::array<std::string_view, 2> inner{"else", "endfor"};
    static constexpr std::array<std::string_view, 1> last{"endfor"};
    Statement statement{.kind = StatementKind::loop, .line = line};
    do {
      statement.targets.push_back(cursor_.take_name("a variable of the loop"));
    } while (cursor_.skip_symbol(","));
    if (!cursor_.skip_word("in")) cursor_.refuse_token("in");
    statement.expressions.push_back(parse_condition(cursor_));
    if (cursor_.skip_word("if")) statement.expressions.push_back(parse_expression(cursor_));
    if (cursor_.is_word("recursive"))
      refuse_at(cursor_.path(), line, "recursive loops are not supported, expected {% for NAME in VALUE %}");
    end_tag();
    statement.bodies.push_back(body(inner, line, "for"));
    cursor_.take();  // the {% of the next tag
    finish(statement, last, "for");
    return statement;
  }

  Statement set(int line) {
    Statement statement{.kind = StatementKind::set, .line = line};
    statement.targets.push_back(cursor_.take_name("a variable"));
    if (cursor_.skip_symbol(".")) statement.targets.push_back(cursor_.take_name("a member of the namespace"));
    if (!cursor_.skip_symbol("="))
      refuse_at(cursor_.path(), line,
                "{% set %} of blocks and of several variables is not supported, expected '=' after {% set ",
                config::shown(statement.targets.front()));
    statement.expressions.push_back(parse_expression(cursor_));
    end_tag();
    return statement;
  }

  // Parses {% else %} and its body if they are next. Then parses the end tag of `statement`. The caller has taken the
  // {% of the next tag.
  void finish(Statement& statement, std::span<const std::string_view> end, std::string_view tag) {
    if (cursor_.skip_word("else")) {
      end_tag();
      statement.bodies.push_back(body(end, statement.line, tag));
      cursor_.take();
    }
    cursor_.take();
    end_tag();
  }

  Statement macro(int line) {
    static constexpr std::array<std::string_view, 1> end{"endmacro"};
    Statement statement{.kind = StatementKind::macro, .line = line};
    statement.targets.push_back(cursor_.take_name("the name of a macro"));
    cursor_.expect_symbol("(");
    while (!cursor_.skip_symbol(")")) {
      statement.targets.push_back(cursor_.take_name("a parameter"));
      if (cursor_.skip_symbol("=")) {
        statement.expressions.push_back(parse_expression(cursor_));
      } else if (!statement.expressions.empty()) {
        refuse_at(cursor_.path(), line, "the parameter '", config::shown(statement.targets.back()),
                  "' has no default but follows a parameter with a default, expected a default");
      }
      if (cursor_.skip_symbol(")")) break;
      cursor_.expect_symbol(",");
    }
    end_tag();
    statement.bodies.push_back(body(end, line, "macro"));
    cursor_.take();  // the {% of the end tag
    finish(statement, end, "macro");
    return statement;
  }

  // The tag {% generation %} encloses answers for other programs. It only limits the scope of variables.
  Statement generation(int line) {
    static constexpr std::array<std::string_view, 1> end{"endgeneration"};
    end_tag();
    Statement statement{.kind = StatementKind::scope, .line = line};
    statement.bodies.push_back(body(end, line, "generation"));
    cursor_.take();  // the {% of the end tag
    finish(statement, end, "generation");
    return statement;
  }

  TokenCursor cursor_;
};

}  // namespace

std::vector<Statement> parse(std::string_view source, const std::string& path) {
  if (source.size() > largest_template)
    base::fail(base::ExitCode::data, path, ": has ", source.size(), " bytes, expected a chat template of at most ",
               largest_template);
  return Parser(tokens_of(source, path), path).run();
}

}  // namespace hexad::data::jinja
