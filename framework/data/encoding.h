// Conversion of documents to token ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "framework/data/document.h"
#include "framework/data/tokenizer.h"

namespace hexad::data {

struct EncodedDocument {
  std::vector<int32_t> ids = {};        // with end-of-document and, if the tokenizer has it, beginning-of-document
  std::vector<uint8_t> loss_mask = {};  // 1: the token is a target; empty without a mask
  int64_t text_bytes = 0;
  bool held_out = false;
};

/// Returns the number of ids of the mark after an answer that are targets. `ids` are those of the mark. The first
/// special token, which has no text, ends an answer, so it is the last target. Without a special token, all ids are
/// targets.
size_t targets_of_end(const Tokenizer& tokenizer, std::span<const int32_t> ids);

/// Converts a document. Parts of a conversation are converted one by one; special tokens are recognised only in marks
/// of the chat form. If `with_mask` is true, makes a loss mask. Tokens of answers are targets. The end-of-document is a
/// target if the last turn with text is an answer. All tokens of plain text are targets. Errors of the tokenizer name
/// the location of the document.
EncodedDocument encode_document(const Tokenizer& tokenizer, const Document& document, bool with_mask);

}  // namespace hexad::data
