// Division of text into pieces. Byte-pair merges happen only inside a piece.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace hexad::data {

/// Maximum bytes of a piece. It bounds the length of tokens, and keeps the time of encoding a megabyte of one letter
/// linear.
inline constexpr size_t longest_piece = 128;

/// Returns the length of the first piece of non-empty `text`, at least 1. Follows GPT-2's rules, except that digits are
/// grouped by three. A piece is one of:
/// - a word, a number or a run of punctuation, each with at most one space before it;
/// - one of 's 't 're 've 'm 'll 'd;
/// - a run of white space, whose last space goes to the next piece.
/// The rules use bytes, so invalid UTF-8 needs no special case. A byte above 127 is a letter, except in U+2000..U+2BFF
/// (dashes, quotes, arrows, box drawing).
size_t first_piece(std::string_view text);

/// Calls f(piece) for all pieces in order. Their concatenation is `text`.
template <class F>
void for_each_piece(std::string_view text, F&& f) {
  while (!text.empty()) {
    const size_t n = first_piece(text);
    f(text.substr(0, n));
    text.remove_prefix(n);
  }
}

/// Hash of pieces. It allows searching a map by string_view without making a string.
struct PieceHash : std::hash<std::string_view> {
  using is_transparent = void;
};
template <class T>
using PieceMap = std::unordered_map<std::string, T, PieceHash, std::equal_to<>>;

}  // namespace hexad::data
