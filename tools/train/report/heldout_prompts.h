// Beginnings of held-out texts, for a trained model to continue.
#pragma once

#include <string>
#include <vector>

#include "framework/data/source.h"
#include "framework/data/tokenizer.h"

namespace hexad::train {

/// Returns at most `count` different prompts from positions spread over `heldout`. A prompt has about forty bytes. It
/// is the first words of a document that begins at or soon after its position, or else of the text at this position.
/// Equal arguments give equal prompts.
std::vector<std::string> heldout_prompts(const data::Source& heldout, const data::Tokenizer& tokenizer, int64_t count);

}  // namespace hexad::train
