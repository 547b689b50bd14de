// Choice of the ids that begin and end documents.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "framework/data/tokenizers/tokenizer_source.h"

namespace hexad::data {

/// The ids that the tokenizer file itself names.
struct SpecialHints {
  std::optional<int32_t> beginning, end;
};

/// Returns the id of a token by its text, if the vocabulary has it.
using IdByName = std::function<std::optional<int32_t>(std::string_view)>;

/// Sets the special ids of request.source, unless they are set. The end of a document is the first of: the token that
/// the user has named; eos_token of tokenizer_config.json and eos_token_id of generation_config.json beside the file;
/// the hint; a usual name such as <|endoftext|>. The beginning is bos_token of tokenizer_config.json, or the hint.
/// Throws Error(data) if no token ends documents, or an id is not below `vocab_size`.
void choose_special_ids(TokenizerRequest& request, const SpecialHints& hints, const IdByName& id_of,
                        int64_t vocab_size);

}  // namespace hexad::data
