// Byte-level vocabularies whose tokens are ranked, without a list of merges (tiktoken and tekken).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/data/tokenizers/text_model.h"

namespace hexad::data {

/// Maximum bytes of a token in a ranked vocabulary.
inline constexpr size_t longest_ranked_token = 1024;

/// Makes a model from tokens in the order of their ranks. An empty token is an unused rank. Two adjacent tokens are
/// merged if their concatenation is a token; the lowest rank is merged first. The id of a token is its rank plus
/// `first_id`. Throws Error(data) that names `path` if a token is too long or occurs twice, or if a byte is not a
/// token.
std::unique_ptr<TextModel> make_ranked_model(const std::string& path, const std::vector<std::string>& tokens,
                                             int32_t first_id);

}  // namespace hexad::data
