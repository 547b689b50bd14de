// Overrides: keys that are given on the command line.
#include <fmt/format.h>

#include <algorithm>

#include "framework/base/error.h"
#include "framework/base/parsed_number.h"
#include "framework/config/document.h"
#include "framework/config/merge.h"
#include "framework/config/parser.h"
#include "framework/config/words.h"

namespace hexad::config {
namespace {

using base::ExitCode;
using base::fail;

/// Returns the child to which one step of a path on the command line refers. Creates a missing child of a map. Replaces
/// `node` by a map if `node` is a scalar or empty. Throws Error(usage) if `node` is a list and `step` is not an index
/// into it.
Node& step_into(Node& node, std::string_view step, const Position& at) {
  if (node.kind == Node::Kind::list) {
    const auto index = base::parsed_number<size_t>(step);
    if (!index || *index >= node.children.size())
      fail(ExitCode::usage, at.text(), ": `", shown(step), "` must be an index of the list, ",
           node.children.empty() ? "which is empty; set the whole list"
                                 : base::cat("a whole number from 0 to ", node.children.size() - 1));
    return node.children[*index];
  }
  if (node.kind != Node::Kind::map) node = Node{.kind = Node::Kind::map, .at = at, .key = node.key};
  if (Node* child = node.find(step)) return move_to_end(node, *child);
  node.children.push_back({.at = at, .key = std::string(step)});
  return node.children.back();
}

/// True if the whole of `text` is one quoted YAML scalar.
bool is_quoted(std::string_view text) {
  if (text.size() < 2 || (text.front() != '"' && text.front() != '\'') || text.back() != text.front()) return false;
  const char quote = text.front();
  text = text.substr(1, text.size() - 2);
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escapes = (quote == '"' && text[i] == '\\') || (quote == '\'' && text[i] == quote);
    if (escapes && (i + 1 == text.size() || (quote == '\'' && text[i + 1] != quote))) return false;
    if (escapes)
      ++i;
    else if (text[i] == quote)
      return false;
  }
  return true;
}

/// Parses a list or map in brackets, or a quoted text, as YAML. An empty text and `null` are null. Any other text is
/// used literally.
Node parsed_value(std::string_view text, const std::shared_ptr<const std::string>& source) {
  Budget budget;
  if (text.starts_with('[') || text.starts_with('{')) {
    Node value = parse_yaml(text, source, SourceKind::command_line, budget);
    if (text.substr(text.find_last_not_of(" \t\r\n")).front() != (text.front() == '[' ? ']' : '}'))
      fail(ExitCode::usage, *source,
           ": begins with a bracket but does not end with the closing bracket; add the bracket, or quote the text");
    return value;
  }
  if (is_quoted(text)) return parse_yaml(text, source, SourceKind::command_line, budget);
  require_plain_text(text, *source);
  if (text.empty() || text == "null") return {.kind = Node::Kind::null};
  return {.kind = Node::Kind::scalar, .text = std::string(text)};
}

}  // namespace

void override_key(Document& document, const std::string& text, std::string_view prefix) {
  const auto source = std::make_shared<const std::string>(base::cat(command_line_source, prefix, shown(text)));
  const Position at{source, 0, 0};
  const size_t equals = text.find('=');
  const std::string_view path = std::string_view(text).substr(0, equals);
  if (equals == std::string::npos || path.empty() || path.front() == '.' || path.back() == '.' ||
      path.find("..") != std::string_view::npos)
    fail(ExitCode::usage, at.text(), ": expected key.path=value, such as train.steps=100");
  if (path.find_first_of(" \t") != std::string_view::npos)
    fail(ExitCode::usage, at.text(), ": has a blank in the key; expected key.path=value without blanks before the =");
  Node* node = &document.root;
  size_t begin = 0, depth = 0;
  while (begin <= path.size()) {
    if (++depth > 32) fail(ExitCode::usage, at.text(), ": the key has more than 32 levels, the maximum");
    const size_t end = std::min(path.find('.', begin), path.size());
    node = &step_into(*node, path.substr(begin, end - begin), at);
    begin = end + 1;
  }
  Node value = parsed_value(std::string_view(text).substr(equals + 1), source);
  value.key = node->key;
  value.at = at;
  merge(*node, std::move(value));
}

}  // namespace hexad::config
