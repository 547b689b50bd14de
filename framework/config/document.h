// A recipe as written: a tree of text values, each knowing the line it came from.
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

/// Place where a value was written: a file and line, or a command-line override.
struct Position {
  std::shared_ptr<const std::string> source;  // "recipes/a.yaml" or "command line: a.b=1"
  int line = 0;                               // from 1; 0 when the source as a whole is meant
  int column = 0;

  /// "recipes/a.yaml:14"
  std::string text() const;
  bool operator<(const Position& other) const;
};

struct Node {
  enum class Kind : uint8_t { null, scalar, list, map };

  Kind kind = Kind::null;
  Position at{};                 // of the key, for a child of a map
  std::string key{};             // for a child of a map
  std::string text{};            // of a scalar
  bool quoted = false;           // quoted or block scalar: never a number, a bool or a word with a meaning
  std::vector<Node> children{};  // of a map: what a later source wrote stands behind what an earlier one did

  /// The child of a map with this key, or nullptr.
  const Node* find(std::string_view name) const;
  Node* find(std::string_view name) { return const_cast<Node*>(std::as_const(*this).find(name)); }
};

struct Document {
  Node root;  // always a map
};

/// Prefix of the sources of overrides.
inline constexpr std::string_view command_line_source = "command line: ";

/// Bounds on what one recipe may cost, over all the files that it includes. The worst texts within them take
/// about 100 ms.
struct Budget {
  size_t bytes = size_t{256} << 10;
  size_t nodes = 10'000;
  size_t files = 64;
};

/// Reads a recipe with its includes and applies overrides of the form key.path=value, the later ones last.
///
/// `include: other.yaml` (or a list) at the top level reads other recipes first, in order; each replaces keys of those
/// before it, map by map; the including file has the last word. A section left empty replaces nothing. Relative paths
/// are relative to the including file and must stay inside the folder of `recipe`. Overrides merge alike: their values
/// are lists or maps in brackets, quoted texts, else texts as they stand. Digits in a path index a list.
///
/// Throws Error(usage) with file:line for everything that is not one plain YAML map: bad UTF-8, syntax, duplicate keys,
/// several documents, anchors, aliases, tags, merge keys, deeper than 32, over the budget, include cycles.
Document load(const std::filesystem::path& recipe, std::span<const std::string> overrides = {});

/// Like load(), for a text that is not a file, such as the recipe in a checkpoint. `include` is an unknown key there.
Document parse(std::string_view text, const std::string& name, std::span<const std::string> overrides = {});

/// Applies one more override.
void override_key(Document& document, const std::string& text);

}  // namespace hexad::config
