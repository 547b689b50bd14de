// Small helpers for messages.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hexad::config {

/// Edits (insert, delete, replace, swap of neighbours) from `a` to `b`, letters compared without case.
size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate that `word` most likely meant, or empty when none is near enough.
std::string_view closest(std::string_view word, std::span<const std::string_view> candidates);

/// "a, b, c"
std::string join(std::span<const std::string_view> words);

/// The same, what is most like `word` first.
std::string nearest_first(std::string_view word, std::vector<std::string> words);

/// Text from a recipe made safe to print: control characters escaped, no UTF-8 is U+FFFD, cut after 60 bytes.
std::string shown(std::string_view text);

/// True if `path` is `above` or lies under it; nothing lies under the empty path.
bool covers(std::string_view above, std::string_view path);

/// "model" + "hidden" is "model.hidden"; an empty parent is the root.
std::string child_path(std::string_view parent, std::string_view key);

}  // namespace hexad::config
