// A recipe as a tree of text values, each with its position in a file or on the command line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hexad::config {

/// Location of a value in its source: a file and line, or an override on the command line.
struct Position {
  std::shared_ptr<const std::string> source;  // such as "recipes/a.yaml" or "command line: a.b=1"; null: unknown
  int line = 0;                               // line number from 1; 0: the source as a whole
  int column = 0;                             // column number from 1; 0: unknown

  /// Returns a text like "recipes/a.yaml:14". Returns the source alone if `line` is 0, and "recipe" if there is no
  /// source.
  std::string text() const;
  /// True if the value is given on the command line.
  bool on_command_line() const;
  bool operator<(const Position& other) const;
};

struct Node {
  enum class Kind : uint8_t { null, scalar, list, map };

  Kind kind = Kind::null;
  Position at{};        // location of the value, or of the key if the node is a child of a map
  std::string key{};    // key if the node is a child of a map; otherwise empty
  std::string text{};   // text of a scalar
  bool quoted = false;  // true for a quoted or block scalar, which is never a number, a boolean, `none` or `auto`
  std::vector<Node> children{};  // the children of a map are in the order of their sources, latest last

  /// Returns the child of a map with the key `name`; nullptr if there is none.
  const Node* find(std::string_view name) const;
  Node* find(std::string_view name) { return const_cast<Node*>(std::as_const(*this).find(name)); }
};

struct Document {
  Node root;  // the root is always a map
};

/// Beginning of Position::source for overrides.
inline constexpr std::string_view command_line_source = "command line: ";

/// Limits on the cost of a recipe together with all files that it includes, or of the value of one override.
struct Budget {
  size_t bytes = size_t{256} << 10;
  size_t nodes = 10'000;
  size_t files = 64;
};

/// Reads a recipe and the files that it includes, then applies overrides of the form key.path=value in order.
///
/// `include: other.yaml` (or a list of files) at the top level reads other recipes first, in order. Maps are merged,
/// and other values replace the values of earlier files. The including file comes last. An empty section does not
/// replace a section. A relative path is relative to the including file. It must lead into the folder of `recipe`, or
/// into the folder of a file that was included by an absolute path. An absolute path may lead anywhere. A leading ~ or
/// ~user is replaced by the home folder, so the path is then absolute.
///
/// Overrides are merged in the same way. The value of an override is a list or map in brackets, a quoted text, or a
/// plain text; an empty text and `null` are null. In the key path, an element of a list is named by its index.
///
/// Throws Error(usage) that names the override, or the file and, if known, the line. The errors are:
/// - a file that cannot be read, or is not one YAML map
/// - invalid UTF-8, control characters other than tabs and line ends, or invalid YAML syntax
/// - several documents, duplicate or empty keys, anchors, aliases, tags, and merge keys
/// - nesting deeper than 32, or an exceeded budget
/// - an include that is not a file name, that leads into another folder, or that is part of a cycle
/// - an override without `=`, or with a blank or an empty part in its key path
/// - an override with an index that is not in the list
/// - an override whose value begins with a bracket but does not end with the closing bracket
Document load(const std::filesystem::path& recipe, std::span<const std::string> overrides = {});
/// Like load(recipe, overrides), but relative paths of includes may also lead into the folder `include_root`. An empty
/// `include_root` has no effect. Throws Error(usage) also if `include_root` is not a folder.
Document load(const std::filesystem::path& recipe, std::span<const std::string> overrides,
              const std::string& include_root);

/// Like load(), for a text that is not in a file, such as the recipe in a checkpoint. Messages contain `name` in place
/// of a file. The text cannot include files: `include` is a key like any other.
Document parse(std::string_view text, const std::string& name, std::span<const std::string> overrides = {});

/// Applies another override of the form key.path=value to `document`. Throws like load() if the override is invalid.
/// Messages show `prefix` before the override. `prefix` is the part of the key that selects the document, such as
/// "cluster.".
void override_key(Document& document, const std::string& text, std::string_view prefix = {});

}  // namespace hexad::config
