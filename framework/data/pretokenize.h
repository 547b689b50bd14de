// Division of text into pieces. Byte pairs are merged only within a piece.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace hexad::data {

/// Maximum bytes of a piece. This maximum limits the length of tokens. It also keeps the encoding time linear in the
/// length of the text, even if the text is one long word.
inline constexpr size_t longest_piece = 128;

/// Returns the length in bytes of the first piece of `text`, which must not be empty. The rules resemble GPT-2's rules,
/// but digits are grouped by three. A piece is one of:
/// - a word, up to three digits or a run of punctuation, each preceded by at most one space;
/// - one of 's 't 're 've 'm 'll 'd, if no letter follows;
/// - a run of white space, without a last space that belongs to the next piece.
/// The rules apply to bytes, so invalid UTF-8 needs no special case. A byte above 127 counts as a letter, except in
/// U+2000..U+2BFF (dashes, quotes, arrows, box drawing).
size_t first_piece(std::string_view text);

/// Calls f(piece) for all pieces, in order. Their concatenation equals `text`.
template <class F>
void for_each_piece(std::string_view text, F&& f) {
  while (!text.empty()) {
    const size_t n = first_piece(text);
    f(text.substr(0, n));
    text.remove_prefix(n);
  }
}

/// Hash of pieces. With it, a map can be searched by string_view without making a string.
struct PieceHash : std::hash<std::string_view> {
  using is_transparent = void;
};
template <class T>
using PieceMap = std::unordered_map<std::string, T, PieceHash, std::equal_to<>>;

}  // namespace hexad::data
