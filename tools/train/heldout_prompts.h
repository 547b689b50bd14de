// Beginnings of held-out texts, for a trained model to continue.
#pragma once

#include <string>
#include <vector>

#include "framework/data/source.h"
#include "framework/data/tokenizer.h"

namespace hexad::train {

/// At most `count` different ones, from places spread over `heldout`: the first words, some forty bytes, of a document
/// that begins there, or where none does, of what stands there. The same whenever they are asked for.
std::vector<std::string> heldout_prompts(const data::Source& heldout, const data::Tokenizer& tokenizer, int64_t count);

}  // namespace hexad::train
