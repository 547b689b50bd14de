// The bytes of a text that its tokens stand for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "framework/data/byte_ranges.h"
#include "framework/data/tokenizer.h"

namespace hexad::data {

/// Returns for each id the bytes of `text` that it stands for. `ids` are those of the whole text, with or without
/// special tokens. An id for a space that the tokenizer has inserted stands for the byte that follows. White space that
/// a special token includes (strip_left, strip_right) belongs to no id. Returns nullopt if the bytes of the ids are not
/// those of the text, because the tokenizer has changed the text.
std::optional<std::vector<ByteRange>> token_spans(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                                                  std::string_view text);

}  // namespace hexad::data
