// Choice of the ids that begin and end documents.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "framework/data/tokenizers/tokenizer_source.h"

namespace hexad::data {

/// Ids that the tokenizer file itself specifies.
struct SpecialHints {
  std::optional<int32_t> beginning, end;
};

/// Function that returns the id of the token with the given text; nullopt if the vocabulary has no such token.
using IdByName = std::function<std::optional<int32_t>(std::string_view)>;

/// Sets the special ids of request.source if they are not set yet. The end of a document is the first of these that
/// exists:
/// - the token that the user has named;
/// - eos_token of tokenizer_config.json next to the file;
/// - eos_token_id of generation_config.json next to the file;
/// - `hints.end`;
/// - a token with a usual name such as <|endoftext|>.
/// If tokenizer_config.json contains add_bos_token, the beginning of a document is bos_token (true) or nothing (false).
/// Otherwise, the beginning of a document is `hints.beginning`. Throws Error(usage) if the token that the user has
/// named does not exist. Throws Error(data) if no token ends documents, or if an id is not below `vocab_size`. Also
/// throws Error(data) if a configuration file is damaged or names a token that does not exist.
void choose_special_ids(TokenizerRequest& request, const SpecialHints& hints, const IdByName& id_of,
                        int64_t vocab_size);

}  // namespace hexad::data
