// The "model" of a tokenizer.json: BPE or Unigram.
#pragma once

#include <memory>

#include "framework/data/tokenizers/json_field.h"
#include "framework/data/tokenizers/text_model.h"
#include "framework/data/tokenizers/vocabulary.h"

namespace hexad::data {

/// Reads the model, and adds its tokens to `vocabulary`. Throws Error(data) that names a kind that is not supported, a
/// merge of tokens that do not exist, or a missing token.
std::unique_ptr<TextModel> read_model(const JsonField& json, bool byte_level, Vocabulary& vocabulary);

}  // namespace hexad::data
