// The pre-tokenizer of SentencePiece-like models. It replaces each space by a visible character, usually U+2581, which
// marks the beginning of a word.
#pragma once

#include <memory>

#include "framework/data/tokenizers/pre_tokenizers.h"

namespace hexad::data {

/// The character that represents a space.
inline constexpr std::string_view metaspace = "\xe2\x96\x81";  // U+2581

/// Reads a pre-tokenizer of type Metaspace from a tokenizer.json.
std::unique_ptr<PreTokenizer> read_metaspace(const JsonField& json);

}  // namespace hexad::data
