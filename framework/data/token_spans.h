// Mapping from the tokens of a text to its bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "framework/data/byte_ranges.h"
#include "framework/data/tokenizer.h"

namespace hexad::data {

/// Returns, for each id, the bytes of `text` that it represents. `ids` must be the ids of the whole text, with or
/// without special tokens. An id for a space that the tokenizer has inserted represents the byte that follows. White
/// space that a special token includes (strip_left, strip_right) belongs to no id. Returns nullopt if the bytes of the
/// ids differ from the text, because the tokenizer has changed the text.
std::optional<std::vector<ByteRange>> token_spans(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                                                  std::string_view text);

}  // namespace hexad::data
