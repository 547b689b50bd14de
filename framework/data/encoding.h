// Conversion of documents to token ids, and of token ids back to bytes of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "framework/data/byte_ranges.h"
#include "framework/data/text_document.h"
#include "framework/data/tokenizer.h"

namespace hexad::data {

struct EncodedDocument {
  std::vector<int32_t> ids = {};        // including end-of-document and, if the tokenizer has it, beginning-of-document
  std::vector<uint8_t> loss_mask = {};  // 1: the token is a target; empty without a mask
  int64_t text_bytes = 0;
  bool held_out = false;
};

/// Returns the number of targets in `mark`, the text after an answer. `ids` are the ids of `mark`. The first special
/// token ends an answer, so it is the last target. Without a special token, all ids are targets.
size_t targets_of_end(const Tokenizer& tokenizer, std::span<const int32_t> ids, std::string_view mark);

/// Returns the targets of `mark`, the text that a form writes after an answer. The targets are the ids that `mark` has
/// directly after an answer, up to the last target. Returns nothing if `mark` is empty.
std::vector<int32_t> ids_after_answer(const Tokenizer& tokenizer, std::string_view mark);

/// Converts a document. A conversation is converted as a whole, like in the model's own library. Special tokens are
/// recognised only in marks of the chat form. Token borders remain where `hexad generate` begins and ends answers:
/// - A mark that ends an answer and has no special token is converted alone.
/// - No token extends across the end of an answer if no mark follows the answer.
/// - No token extends across the beginning of an answer if no special token precedes the answer.
/// The last two rules do not apply to the form of a model's chat template (Document::from_chat_template).
///
/// Makes a loss mask if `with_mask` is true. Tokens that contain a byte of a learned answer are targets. The
/// end-of-document is a target if the last turn with text is a learned answer. In plain text, all tokens and the
/// end-of-document are targets. An inserted beginning-of-document is never a target. The bytes of the tokens are not
/// known if the tokenizer changes the text, for example by Unicode normalization. The parts of the document are then
/// converted one by one, with or without a mask. Errors of the tokenizer name the location of the document.
EncodedDocument encode_document(const Tokenizer& tokenizer, const Document& document, bool with_mask);

/// Returns, for each id, the bytes of `text` that the id represents. `ids` must be the ids of the whole text, with or
/// without special tokens. An id for a space that the tokenizer has inserted represents the byte that follows. White
/// space that a special token includes (strip_left, strip_right) belongs to no id. Returns nullopt if the bytes of the
/// ids differ from the text, because the tokenizer has changed the text.
std::optional<std::vector<ByteRange>> token_spans(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                                                  std::string_view text);

}  // namespace hexad::data
