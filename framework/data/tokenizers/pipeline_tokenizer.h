// A tokenizer that consists of steps: added tokens, normalizers, pre-tokenizers and a model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/data/tokenizers/added_tokens.h"
#include "framework/data/tokenizers/normalizers.h"
#include "framework/data/tokenizers/pre_tokenizers.h"
#include "framework/data/tokenizers/special_ids.h"
#include "framework/data/tokenizers/text_model.h"

namespace hexad::data {

struct PipelineParts {
  std::vector<AddedToken> added;
  std::vector<Normalizer> normalizers = {};
  PreTokenizers pre_tokenizers = {};
  std::unique_ptr<TextModel> model;
  std::vector<std::string> bytes;  // bytes of each id; empty for special tokens and unused ids
  std::vector<std::string> names;  // names by id, to find special ids and their texts; names of other ids may be empty
  SpecialHints hints = {};
  std::string decoded_prefix = {};  // prefix, such as a space, that decode() removes from a text
};

/// Makes a tokenizer. A byte that is not part of a UTF-8 character gets the id of this byte and is not merged with its
/// neighbours. A byte without an id in the vocabulary is encoded as U+FFFD.
std::unique_ptr<Tokenizer> make_pipeline(TokenizerRequest request, PipelineParts parts);

}  // namespace hexad::data
