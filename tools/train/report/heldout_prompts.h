// Prompts for a trained model, taken from held-out text.
#pragma once

#include <string>
#include <vector>

#include "framework/data/source.h"
#include "framework/data/tokenizer.h"

namespace hexad::train {

/// Returns at most `count` different prompts from evenly spaced positions in `heldout`. A prompt has at most forty
/// bytes. It is the beginning of a document near its position or, if no document begins there, the text at the
/// position. Equal arguments give equal prompts.
std::vector<std::string> heldout_prompts(const data::Source& heldout, const data::Tokenizer& tokenizer, int64_t count);

}  // namespace hexad::train
