// The model of a tokenizer, which converts a piece of text to ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/tokenizers/piece_cache.h"

namespace hexad::data {

class TextModel {
 public:
  virtual ~TextModel() = default;
  /// Appends the ids of `piece`, which must be valid UTF-8, to `ids`. Thread-safe if each thread passes a different
  /// cache.
  virtual void encode(std::string_view piece, PieceCache& cache, std::vector<int32_t>& ids) const = 0;
  /// Returns the id of a byte that is not part of a character; -1 if the vocabulary has no id for it.
  virtual int32_t id_of_byte(unsigned char byte) const = 0;
  /// Implements Tokenizer::left_out().
  virtual std::string left_out() const { return {}; }
};

}  // namespace hexad::data
