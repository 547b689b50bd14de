#include "framework/config/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <tuple>

#include "framework/base/error.h"
#include "framework/config/parser.h"
#include "framework/config/words.h"

namespace hexad::config {
namespace {

namespace fs = std::filesystem;
using base::ExitCode;
using base::fail;

/// Moves a child of a map behind the others: it is written again.
Node& to_the_end(Node& map, Node& child) {
  std::rotate(&child, &child + 1, map.children.data() + map.children.size());
  return map.children.back();
}

/// `over` replaces what `under` says, map by map.
void merge(Node& under, Node over) {
  if (over.kind == Node::Kind::null && under.kind == Node::Kind::map) return;  // a section left empty
  if (over.kind != Node::Kind::map || under.kind != Node::Kind::map) {
    under = std::move(over);
    return;
  }
  under.at = over.at;
  for (Node& child : over.children) {
    if (Node* same = under.find(child.key))
      merge(to_the_end(under, *same), std::move(child));
    else
      under.children.push_back(std::move(child));
  }
}

/// Absolute, with links followed, whether or not the file exists: weakly_canonical alone leaves a missing relative path
/// relative.
fs::path real_path(const fs::path& path, std::error_code& failed) {
  const fs::path absolute = fs::absolute(path, failed);
  return failed ? fs::path() : fs::weakly_canonical(absolute, failed);
}

void require_map(const Node& root, const std::string& name) {
  if (root.kind == Node::Kind::null)
    fail(ExitCode::usage, name, ": is empty; expected sections such as model: and train:");
  if (root.kind != Node::Kind::map)
    fail(ExitCode::usage, root.at.text(), ": expected `key: value` lines at the top level, found a ",
         root.kind == Node::Kind::list ? "list" : "single value");
}

/// Reads a recipe and what it includes, depth first.
class Loader {
 public:
  explicit Loader(const fs::path& recipe) : recipe_(recipe) {
    std::error_code ignored;  // a bad folder shows when the file is opened
    folder_ = real_path(recipe.has_parent_path() ? recipe.parent_path() : fs::path("."), ignored);
  }

  Node load() { return load(recipe_, recipe_.string()); }

 private:
  /// `mentioned` begins the message: where this file is asked for.
  Node load(const fs::path& path, const std::string& mentioned) {
    if (budget_.files == 0) fail(ExitCode::usage, mentioned, ": too many included files");
    --budget_.files;
    const auto name = std::make_shared<const std::string>(path.string());
    Node own = parse_yaml(text_of(path, mentioned), name, SourceKind::file, budget_);
    require_map(own, mentioned);
    Node merged{.kind = Node::Kind::map};
    std::error_code ignored;  // the file was just read
    open_.push_back(real_path(path, ignored));
    const auto include = std::ranges::find(own.children, "include", &Node::key);
    if (include != own.children.end()) {
      for (Node& other : included(*include)) merge(merged, std::move(other));
      own.children.erase(include);
    }
    open_.pop_back();
    merge(merged, std::move(own));
    merged.at = {name, 0, 0};
    return merged;
  }

  std::vector<Node> included(const Node& include) {
    std::vector<Node> out;
    if (include.kind == Node::Kind::list) {
      for (const Node& entry : include.children) out.push_back(load_included(entry));
    } else {
      out.push_back(load_included(include));
    }
    return out;
  }

  Node load_included(const Node& entry) {
    const std::string at = entry.at.text();
    if (entry.kind != Node::Kind::scalar || entry.text.empty())
      fail(ExitCode::usage, at, ": include expects a file name or a list of them");
    const std::string mentioned = fmt::format("{}: include {}", at, shown(entry.text));
    if (fs::path(entry.text).is_absolute())
      fail(ExitCode::usage, mentioned, ": expected a path relative to this file, inside the recipe's folder");
    const fs::path path = (fs::path(*entry.at.source).parent_path() / entry.text).lexically_normal();
    std::error_code failed;
    const fs::path real = real_path(path, failed);  // follows links: they may lead outside
    const auto [end, rest] = std::ranges::mismatch(folder_, real);
    if (failed || end != folder_.end())
      fail(ExitCode::usage, mentioned, ": is outside the recipe's folder ", folder_.string());
    if (std::ranges::find(open_, real) != open_.end())
      fail(ExitCode::usage, mentioned, ": includes itself: ", chain(real));
    return load(path, mentioned);
  }

  std::string chain(const fs::path& again) const {
    std::string out;
    for (const fs::path& path : open_) out += path.filename().string() + " -> ";
    return out + again.filename().string();
  }

  std::string text_of(const fs::path& path, const std::string& mentioned) const {
    std::error_code failed;
    const fs::file_status status = fs::status(path, failed);
    if (status.type() == fs::file_type::not_found) fail(ExitCode::usage, mentioned, ": no such file");
    if (fs::is_directory(status)) fail(ExitCode::usage, mentioned, ": is a directory; expected a recipe file (.yaml)");
    // A pipe or device has no size to check and may never end.
    if (failed || !fs::is_regular_file(status)) fail(ExitCode::usage, mentioned, ": is not a regular file");
    std::ifstream file(path, std::ios::binary);
    if (!file) fail(ExitCode::usage, mentioned, ": cannot be read");
    std::string text(budget_.bytes + 1, '\0');  // one byte more than allowed, so that parse_yaml sees the excess
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (file.bad()) fail(ExitCode::usage, mentioned, ": cannot be read");
    text.resize(static_cast<size_t>(file.gcount()));
    return text;
  }

  fs::path recipe_;
  fs::path folder_;             // canonical; includes must stay inside
  std::vector<fs::path> open_;  // canonical paths of the files being read, outermost first
  Budget budget_;
};

/// The child that one step of a command-line path names, made when missing.
Node& step_into(Node& node, std::string_view step, const Position& at) {
  if (node.kind == Node::Kind::list) {
    size_t index = 0;
    const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
    if (error != std::errc{} || end != step.data() + step.size() || index >= node.children.size())
      fail(ExitCode::usage, at.text(), ": `", shown(step), "` must be an index into a list of ", node.children.size());
    return node.children[index];
  }
  if (node.kind != Node::Kind::map) node = Node{.kind = Node::Kind::map, .at = at, .key = node.key};
  if (Node* child = node.find(step)) return to_the_end(node, *child);
  node.children.push_back({.at = at, .key = std::string(step)});
  return node.children.back();
}

void apply_override(Node& root, const std::string& text) {
  const auto source = std::make_shared<const std::string>(std::string(command_line_source) + shown(text));
  const Position at{source, 0, 0};
  const size_t equals = text.find('=');
  const std::string_view path = std::string_view(text).substr(0, equals);
  if (equals == std::string::npos || path.empty() || path.front() == '.' || path.back() == '.' ||
      path.find("..") != std::string_view::npos)
    fail(ExitCode::usage, at.text(), ": expected key.path=value, such as train.steps=100");
  Node* node = &root;
  size_t begin = 0, depth = 0;
  while (begin <= path.size()) {
    if (++depth > 32) fail(ExitCode::usage, at.text(), ": nested deeper than 32 levels");
    const size_t end = std::min(path.find('.', begin), path.size());
    node = &step_into(*node, path.substr(begin, end - begin), at);
    begin = end + 1;
  }
  Budget budget;
  Node value = parse_yaml(std::string_view(text).substr(equals + 1), source, SourceKind::command_line, budget);
  value.key = node->key;
  value.at = at;
  *node = std::move(value);
}

}  // namespace

std::string Position::text() const {
  if (!source) return "recipe";
  return line > 0 ? fmt::format("{}:{}", *source, line) : *source;
}

bool Position::operator<(const Position& other) const {
  const auto key = [](const Position& p) {
    return std::tuple(p.source ? std::string_view(*p.source) : std::string_view(), p.line, p.column);
  };
  return key(*this) < key(other);
}

const Node* Node::find(std::string_view name) const {
  const auto child = std::ranges::find(children, name, &Node::key);
  return kind == Kind::map && child != children.end() ? &*child : nullptr;
}

void override_key(Document& document, const std::string& text) { apply_override(document.root, text); }

Document load(const fs::path& recipe, std::span<const std::string> overrides) {
  Document document{Loader(recipe).load()};
  for (const std::string& text : overrides) apply_override(document.root, text);
  return document;
}

Document parse(std::string_view text, const std::string& name, std::span<const std::string> overrides) {
  Budget budget;
  const auto source = std::make_shared<const std::string>(name);
  Document document{parse_yaml(text, source, SourceKind::file, budget)};
  require_map(document.root, name);
  document.root.at = {source, 0, 0};
  for (const std::string& override_text : overrides) apply_override(document.root, override_text);
  return document;
}

}  // namespace hexad::config
