// Beginnings of held-out texts, for a trained model to continue.
#pragma once

#include <string>
#include <vector>

#include "framework/data/source.h"
#include "framework/data/tokenizer.h"

namespace hexad::train {

/// Returns at most `count` different prompts from places spread over `heldout`. A prompt is the first words, about
/// forty bytes, of a document that begins there. If no document begins there, it is the first words of the text there.
/// Equal arguments give equal prompts.
std::vector<std::string> heldout_prompts(const data::Source& heldout, const data::Tokenizer& tokenizer, int64_t count);

}  // namespace hexad::train
