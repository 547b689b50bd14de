// Helpers for messages and for paths of keys.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hexad::config {

/// Returns the number of edits (insert, delete, replace, swap of neighbours) from `a` to `b`. Letters are compared
/// without case.
size_t edit_distance(std::string_view a, std::string_view b);

/// Returns the candidate that `word` is most likely a misspelling of; empty if no candidate is similar enough.
std::string_view closest(std::string_view word, std::span<const std::string_view> candidates);

/// Returns the words as "a, b, c".
std::string join(std::span<const std::string_view> words);

/// Returns the words as "a, b, c", sorted by similarity to `word`, the most similar first.
std::string nearest_first(std::string_view word, std::vector<std::string> words);

/// Returns text from a recipe made safe to print: control characters are escaped, invalid UTF-8 becomes U+FFFD, and the
/// text is cut after 60 bytes.
std::string shown(std::string_view text);

/// True if `path` equals `above` or is below it. No path is below the empty path.
bool covers(std::string_view above, std::string_view path);

/// Joins two keys: "model" and "hidden" give "model.hidden". An empty parent is the root.
std::string child_path(std::string_view parent, std::string_view key);

}  // namespace hexad::config
