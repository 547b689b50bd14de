// Functions for messages and for paths of keys.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hexad::config {

/// Returns the least number of edits (insert, delete, replace, or swap two adjacent letters) that turn `a` into `b`.
/// Swapped letters are not edited again (optimal string alignment). The case of letters is ignored.
size_t edit_distance(std::string_view a, std::string_view b);

/// Returns the candidate of which `word` is most likely a misspelling. The result is empty if no candidate is similar
/// enough, or if `word` has more than 64 bytes. Two words of at most two letters each are similar only if they begin
/// with the same letter.
std::string_view closest(std::string_view word, std::span<const std::string_view> candidates);

/// Returns the words as a text "a, b, c".
std::string join(std::span<const std::string_view> words);

/// Returns the words as a text "a, b, c", sorted by similarity to `word`, most similar first.
std::string nearest_first(std::string_view word, std::vector<std::string> words);

/// Returns `text`, a part of a recipe, in a form that is safe to print. Control characters are escaped, and invalid
/// UTF-8 is replaced by U+FFFD. A text of more than 60 bytes is truncated and ends in "...".
std::string shown(std::string_view text);

/// True if `path` equals `above` or is below it. False if `above` is empty.
bool covers(std::string_view above, std::string_view path);

/// Returns the path of a key in a section: "model" and "hidden" give "model.hidden". Returns `key` if `parent` is
/// empty.
std::string child_path(std::string_view parent, std::string_view key);

}  // namespace hexad::config
