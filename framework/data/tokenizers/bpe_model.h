// Byte-pair encoding with a given vocabulary. Symbols are the bytes of a piece, or its characters.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "framework/data/pretokenize.h"
#include "framework/data/tokenizers/pair_table.h"
#include "framework/data/tokenizers/text_model.h"

namespace hexad::data {

using ByteIds = std::array<int32_t, 256>;  // the id of each byte; -1: the vocabulary has none

/// Returns ids of which none is set.
inline ByteIds no_byte_ids() {
  ByteIds ids{};
  ids.fill(-1);
  return ids;
}

/// Returns true if every byte has an id.
bool all_bytes(const ByteIds& ids);
/// Returns true if every byte of `text` has an id.
bool have_bytes(const ByteIds& ids, std::string_view text);

struct BpeParts {
  PairTable merges;
  ByteIds bytes = no_byte_ids();  // symbols of bytes, or the fallback of characters without a token
  /// Ids of pieces that are not split, even if no merges lead to them. Empty: all pieces are merged.
  PieceMap<int32_t> whole_pieces = {};
  int32_t unknown = -1;  // id of a character without a token and fallback; -1: it is left out
};

/// Makes a model whose symbols are bytes.
std::unique_ptr<TextModel> make_byte_bpe(BpeParts parts);

struct CharacterBpeParts {
  BpeParts bpe;
  std::unordered_map<uint32_t, int32_t> characters = {};  // ids of the characters that are tokens
  bool fuse_unknown = false;                              // adjacent unknown characters become one id
  /// The last character of the left part and the first one of the right part, of all merges. A text can be divided
  /// between characters that are no such pair, because no token contains both. Empty: it cannot.
  PairTable joints;
};

/// Makes a model whose symbols are characters.
std::unique_ptr<TextModel> make_character_bpe(CharacterBpeParts parts);

}  // namespace hexad::data
