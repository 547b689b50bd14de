// A recipe as a tree of text values, each with its file and line.
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
  std::shared_ptr<const std::string> source;  // file, such as "recipes/a.yaml", or "command line: a.b=1"
  int line = 0;                               // line number from 1; 0: the source as a whole
  int column = 0;

  /// Returns a text like "recipes/a.yaml:14".
  std::string text() const;
  bool operator<(const Position& other) const;
};

struct Node {
  enum class Kind : uint8_t { null, scalar, list, map };

  Kind kind = Kind::null;
  Position at{};                 // location of the value; for a child of a map, of its key
  std::string key{};             // key, if this is a child of a map; otherwise empty
  std::string text{};            // text of a scalar
  bool quoted = false;           // true for a quoted or block scalar, which is never a number, a boolean or a keyword
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

/// Limits on the cost of a recipe together with all files that it includes. Reading the worst text within these limits
/// takes about 100 ms.
struct Budget {
  size_t bytes = size_t{256} << 10;
  size_t nodes = 10'000;
  size_t files = 64;
};

/// Reads a recipe and the files that it includes, then applies overrides of the form key.path=value in order.
///
/// `include: other.yaml` (or a list of files) at the top level reads other recipes first, in order. Maps are merged,
/// and other values replace the values of earlier files. The including file comes last. An empty section replaces
/// nothing. Relative paths are relative to the including file. They must be inside the folder of `recipe`. Overrides
/// are merged in the same way. The value of an override is a list or map in brackets, a quoted text, or a plain text. A
/// number in the path is an index in a list.
///
/// Throws Error(usage) with file:line unless the text is one plain YAML map. Errors are invalid UTF-8 or syntax,
/// duplicate keys, several documents, anchors, aliases, tags, merge keys, nesting deeper than 32, an exceeded budget,
/// and include cycles.
Document load(const std::filesystem::path& recipe, std::span<const std::string> overrides = {});
/// Like load(recipe, overrides), but included files may also be in the folder `include_root`, unless it is empty.
Document load(const std::filesystem::path& recipe, std::span<const std::string> overrides,
              const std::string& include_root);

/// Like load(), for a text that is not in a file, such as the recipe in a checkpoint. The text may not include files:
/// `include` is an unknown key.
Document parse(std::string_view text, const std::string& name, std::span<const std::string> overrides = {});

/// Applies another override of the form key.path=value.
void override_key(Document& document, const std::string& text);

}  // namespace hexad::config
