// The pre-tokenizer of SentencePiece-like models: spaces become U+2581, and each word begins with one.
#pragma once

#include <memory>

#include "framework/data/tokenizers/pre_tokenizers.h"

namespace hexad::data {

/// The character that stands for a space.
inline constexpr std::string_view metaspace = "\xe2\x96\x81";  // U+2581

/// Reads a Metaspace of a tokenizer.json.
std::unique_ptr<PreTokenizer> read_metaspace(const JsonField& json);

}  // namespace hexad::data
