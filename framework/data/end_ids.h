// Ids that end the texts of a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/tokenizer.h"

namespace hexad::data {

struct EndIds {
  std::vector<int32_t> ids = {};           // distinct; the id that ends the tokenizer's documents comes first
  std::vector<std::string> warnings = {};  // about ids and files that are ignored; each names its file
};

/// Returns the id that ends documents of `tokenizer`, and the ids under eos_token_id in generation_config.json and
/// config.json in `folder`. `folder` is the folder of a model; empty if there is none. An id under eos_token_id is
/// ignored with a warning if it is not in the vocabulary, or if its token is ordinary text. A token is ordinary text if
/// it is neither special nor a mark such as <|user|>. All ids under eos_token_id are ignored if Hexad has trained the
/// tokenizer, because they are ids of another tokenizer.
EndIds end_ids(const Tokenizer& tokenizer, const std::string& folder);

}  // namespace hexad::data
