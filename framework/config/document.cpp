#include "framework/config/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <tuple>

#include "framework/base/error.h"
#include "framework/base/home.h"
#include "framework/base/path_problem.h"
#include "framework/config/merge.h"
#include "framework/config/parser.h"
#include "framework/config/words.h"

namespace hexad::config {
namespace {

namespace fs = std::filesystem;
using base::ExitCode;
using base::fail;

/// Returns an absolute path with links resolved, even if the file does not exist. weakly_canonical() alone would leave
/// a missing relative path relative.
fs::path real_path(const fs::path& path, std::error_code& failed) {
  const fs::path absolute = fs::absolute(path, failed);
  return failed ? fs::path() : fs::weakly_canonical(absolute, failed);
}

void require_map(const Node& root, const std::string& name) {
  if (root.kind == Node::Kind::null) fail(ExitCode::usage, name, ": is empty; expected `key: value` lines");
  if (root.kind != Node::Kind::map)
    fail(ExitCode::usage, root.at.text(), ": expected `key: value` lines at the top level, found a ",
         root.kind == Node::Kind::list ? "list" : "single value");
}

/// Returns the folder of a file, with links resolved.
fs::path folder_of(const fs::path& file) {
  std::error_code ignored;  // an invalid folder is reported when the file is opened
  return real_path(file.has_parent_path() ? file.parent_path() : fs::path("."), ignored);
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  return std::ranges::mismatch(folder, path).in1 == folder.end();
}

fs::path home_expanded(const std::string& path, const std::string& mentioned) try {
  return base::expand_home(path);
} catch (const base::Error& e) {
  fail(ExitCode::usage, mentioned, ": ", e.what());
}

/// Reads a recipe and the files that it includes, depth first.
class Loader {
 public:
  Loader(const fs::path& recipe, const std::string& include_root) : recipe_(recipe) {
    roots_.push_back(folder_of(recipe));
    if (include_root.empty()) return;
    if (const std::string problem = base::folder_problem(include_root); !problem.empty())
      fail(ExitCode::usage, "--include-root ", include_root, ": ", problem);
    roots_.push_back(folder_of(fs::path(include_root) / "any.yaml"));
  }

  Node load() { return load(recipe_, recipe_.string()); }

 private:
  /// Loads one file. `mentioned` begins the messages about a file that cannot be read or is empty, and about too many
  /// files. `mentioned` is the position and text of the include that names the file, or the path of the recipe.
  Node load(const fs::path& path, const std::string& mentioned) {
    if (budget_.files == 0)
      fail(ExitCode::usage, mentioned, ": too many files; a recipe and its includes may be at most ", Budget{}.files,
           " files");
    --budget_.files;
    const auto name = std::make_shared<const std::string>(path.string());
    Node own = parse_yaml(text_of(path, mentioned), name, SourceKind::file, budget_);
    require_map(own, mentioned);
    Node merged{.kind = Node::Kind::map};
    std::error_code ignored;  // an error is not expected, because the file has just been read
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
      fail(ExitCode::usage, at, ": include ",
           entry.kind == Node::Kind::map    ? "is a section"
           : entry.kind == Node::Kind::list ? "has a list in its list"
                                            : "has an empty value",
           "; expected a file name or a list of file names");
    const std::string mentioned = fmt::format("{}: include {}", at, shown(entry.text));
    const fs::path named = home_expanded(entry.text, mentioned);
    const fs::path path = (fs::path(*entry.at.source).parent_path() / named).lexically_normal();
    std::error_code failed;
    const fs::path real = real_path(path, failed);  // resolves links, because a link may refer to another folder
    if (named.is_absolute()) {
      roots_.push_back(folder_of(path));  // files that are read from now on may include files in this folder
    } else if (failed || std::ranges::none_of(roots_, [&](const fs::path& root) { return lies_in(real, root); })) {
      fail(ExitCode::usage, mentioned, ": is outside the recipe's folder ", roots_.front().string(),
           "; use an absolute path, or --include-root with a folder that contains the included file");
    }
    if (std::ranges::find(open_, real) != open_.end())
      fail(ExitCode::usage, mentioned, ": includes itself: ", chain(real), "; remove one of these includes");
    return load(path, mentioned);
  }

  std::string chain(const fs::path& again) const {
    std::string out;
    for (const fs::path& path : open_) out += path.filename().string() + " -> ";
    return out + again.filename().string();
  }

  std::string text_of(const fs::path& path, const std::string& mentioned) const {
    // Also refuses pipes and devices. A read of a pipe may block forever, and a pipe cannot be read a second time.
    if (const std::string problem = base::file_problem(path.string()); !problem.empty())
      fail(ExitCode::usage, mentioned, ": ", problem, problem == "is a directory" ? "; expected a YAML file" : "");
    std::ifstream file(path, std::ios::binary);
    if (!file) fail(ExitCode::usage, mentioned, ": cannot be opened: ", std::strerror(errno));
    // Reads up to one byte more than the rest of the budget. parse_yaml() then detects a text that is too long.
    std::string text(budget_.bytes + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (file.bad()) fail(ExitCode::usage, mentioned, ": cannot be read: ", std::strerror(errno));
    text.resize(file.gcount());
    return text;
  }

  fs::path recipe_;
  // Canonical folders into which relative paths of includes may lead. The first is the recipe's folder.
  std::vector<fs::path> roots_;
  std::vector<fs::path> open_;  // canonical paths of the files that are being read, outermost first
  Budget budget_;
};

}  // namespace

std::string Position::text() const {
  if (!source) return "recipe";
  return line > 0 ? fmt::format("{}:{}", *source, line) : *source;
}

bool Position::on_command_line() const { return source && source->starts_with(command_line_source); }

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

Document load(const fs::path& recipe, std::span<const std::string> overrides) { return load(recipe, overrides, ""); }

Document load(const fs::path& recipe, std::span<const std::string> overrides, const std::string& include_root) {
  Document document{Loader(recipe, include_root).load()};
  for (const std::string& text : overrides) override_key(document, text);
  return document;
}

Document parse(std::string_view text, const std::string& name, std::span<const std::string> overrides) {
  Budget budget;
  const auto source = std::make_shared<const std::string>(name);
  Document document{parse_yaml(text, source, SourceKind::file, budget)};
  require_map(document.root, name);
  document.root.at = {source, 0, 0};
  for (const std::string& override_text : overrides) override_key(document, override_text);
  return document;
}

}  // namespace hexad::config
