// The unigram model (Kudo, "Subword Regularization", ACL 2018): the division of a piece into tokens with the largest
// sum of scores.
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
  bool hidden = false;  // never found in a text: a special token
};

struct UnigramParts {
  std::vector<UnigramPiece> pieces;  // by id
  int32_t unknown;                   // id of text without a token
  ByteIds bytes = no_byte_ids();     // replace the unknown id of a text whose bytes are all set
};

std::unique_ptr<TextModel> make_unigram(UnigramParts parts);

}  // namespace hexad::data
