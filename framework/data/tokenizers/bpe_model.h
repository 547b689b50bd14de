// Byte-pair encoding with a given vocabulary. Symbols are the bytes of a piece, or its characters.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "framework/data/pretokenize.h"
#include "framework/data/tokenizers/pair_table.h"
#include "framework/data/tokenizers/text_model.h"

namespace hexad::data {

using ByteIds = std::array<int32_t, 256>;  // id of each byte; -1: the vocabulary has no token for it

/// Returns an array in which every id is -1.
inline ByteIds no_byte_ids() {
  ByteIds ids{};
  ids.fill(-1);
  return ids;
}

/// True if every byte has an id.
bool all_bytes(const ByteIds& ids);
/// True if every byte of `text` has an id.
bool have_bytes(const ByteIds& ids, std::string_view text);

/// Merges adjacent symbols of `symbols` until no adjacent pair is in `merges`. The pair with the lowest rank is merged
/// first; among equal ranks, the leftmost pair. Takes O(n log n) steps.
void merge_symbols(const PairTable& merges, std::vector<int32_t>& symbols);

struct BpeParts {
  PairTable merges;
  ByteIds bytes = no_byte_ids();  // ids of bytes; in a character model, used for characters without a token
  /// Ids of pieces that are encoded as one token without merging, even if the merges would not produce this token.
  /// Empty: all pieces are merged.
  PieceMap<int32_t> whole_pieces = {};
  int32_t unknown = -1;  // id of a byte or character without any other id; -1: such a byte or character is dropped
};

/// Makes a model whose symbols are bytes.
std::unique_ptr<TextModel> make_byte_bpe(BpeParts parts);

struct CharacterBpeParts {
  BpeParts bpe;
  std::unordered_map<uint32_t, int32_t> characters = {};  // ids of the characters that are tokens, by code point
  bool fuse_unknown = false;                              // true: adjacent unknown characters are encoded as one id
  /// Pairs of characters that some merge joins: the last character of the merge's left part and the first character of
  /// its right part. Before encoding, a text can be divided between two adjacent characters if the table does not
  /// contain their pair. Texts are never divided if this table is empty, if there are whole pieces, or if only some
  /// bytes have ids. Texts are also not divided if unknown characters are fused and a byte has no id.
  PairTable joints;
};

/// Makes a model whose symbols are characters.
std::unique_ptr<TextModel> make_character_bpe(CharacterBpeParts parts);

}  // namespace hexad::data
