#include "tools/hexad/commands/plan_overlay.h"

#include <algorithm>

#include "framework/base/error.h"
#include "framework/config/scalar.h"

namespace hexad::app {
namespace {

using config::Node;

bool is_given(const Node& node) {
  return (node.at.source && node.at.source->starts_with(config::command_line_source)) ||
         std::ranges::any_of(node.children, is_given);
}

// Returns the section with only the keys that were given on the command line, including keys of subsections.
Node given_keys(const Node& section) {
  Node given{.kind = Node::Kind::map, .key = section.key};
  for (const Node& child : section.children) {
    const bool is_section = child.kind == Node::Kind::map;
    Node keys = is_section ? given_keys(child) : child;
    if (is_section ? !keys.children.empty() : is_given(child)) given.children.push_back(std::move(keys));
  }
  return given;
}

// True if YAML reads the unquoted text as a string equal to the text.
bool is_plain(const std::string& text) try {
  const Node root = config::parse(base::cat("key: [", text, "]"), "text").root;
  if (root.children.size() != 1 || root.children[0].children.size() != 1) return false;
  const Node& read = root.children[0].children[0];
  return read.kind == Node::Kind::scalar && !read.quoted && read.text == text;
} catch (const base::Error&) {
  return false;
}

// Returns the value as YAML in one line.
std::string value_text(const Node& node) {
  if (node.kind == Node::Kind::null) return "null";
  if (node.kind == Node::Kind::scalar)
    return !node.quoted && is_plain(node.text) ? node.text
                                               : config::scalar_text(&node.text, config::type_of<std::string>);
  const bool is_section = node.kind == Node::Kind::map;
  std::string text(1, is_section ? '{' : '[');
  for (const Node& child : node.children) {
    if (text.size() > 1) text += ", ";
    if (is_section) text += child.key + ": ";
    text += value_text(child);
  }
  return text + (is_section ? '}' : ']');
}

void write_section(const Node& section, size_t indent, std::string& text) {
  for (const Node& child : section.children) {
    text += std::string(indent, ' ') + child.key + ":";
    if (child.kind != Node::Kind::map) {
      text += " " + value_text(child) + "\n";
      continue;
    }
    text += "\n";
    write_section(child, indent + 2, text);
  }
}

}  // namespace

std::string overlay_text(const std::string& include, const config::Document& document,
                         const std::vector<std::pair<std::string, std::string>>& settings) {
  config::Document overlay{given_keys(document.root)};
  for (const auto& [key, value] : settings) config::override_key(overlay, base::cat(key, "=", value));
  const Node file{.kind = Node::Kind::scalar, .key = "include", .text = include};
  overlay.root.children.insert(overlay.root.children.begin(), file);
  std::string text;
  write_section(overlay.root, 0, text);
  return text;
}

}  // namespace hexad::app
