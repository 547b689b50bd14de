// The unigram model (Kudo, "Subword Regularization", ACL 2018): it divides a piece into the tokens with the largest sum
// of scores.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/data/tokenizers/bpe_model.h"
#include "framework/data/tokenizers/text_model.h"

namespace hexad::data {

struct UnigramPiece {
  std::string text;     // not empty
  double score;         // logarithm of the probability
  bool hidden = false;  // true: a special token, which is never found in a text
};

struct UnigramParts {
  std::vector<UnigramPiece> pieces;  // indexed by id
  int32_t unknown;                   // id of text without a token
  ByteIds bytes = no_byte_ids();     // ids of bytes; they replace `unknown` if all bytes of an unknown text have ids
};

std::unique_ptr<TextModel> make_unigram(UnigramParts parts);

}  // namespace hexad::data
