// The "model" of a tokenizer.json: BPE or Unigram.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "framework/data/tokenizers/json_field.h"
#include "framework/data/tokenizers/text_model.h"
#include "framework/data/tokenizers/vocabulary.h"

namespace hexad::data {

/// Texts of the special tokens.
using SpecialTexts = std::set<std::string, std::less<>>;

/// Reads the model, and adds its tokens to `vocabulary`. A whole piece is never encoded as a token of `special`. Throws
/// Error(data) that names the problem, such as an unsupported model type or a merge of tokens that do not exist.
std::unique_ptr<TextModel> read_model(const JsonField& json, bool byte_level, const SpecialTexts& special,
                                      Vocabulary& vocabulary);

}  // namespace hexad::data
