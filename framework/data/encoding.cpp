#include "framework/data/encoding.h"

#include <string_view>

#include "framework/base/error.h"

namespace hexad::data {

namespace {

EncodedDocument encode_parts(const Tokenizer& tokenizer, const Document& document, bool with_mask) {
  EncodedDocument encoded{.text_bytes = static_cast<int64_t>(document.text.size())};
  const auto first = tokenizer.beginning_of_document();
  const auto append = [&](const std::vector<int32_t>& ids, size_t targets) {
    // The marks of a chat form may already contain the beginning-of-document token.
    const bool begins = encoded.ids.empty() && first && (ids.empty() || ids.front() != *first);
    if (begins) encoded.ids.push_back(*first);
    encoded.ids.insert(encoded.ids.end(), ids.begin(), ids.end());
    if (!with_mask) return;
    if (begins) encoded.loss_mask.push_back(0);
    for (size_t i = 0; i < ids.size(); ++i) encoded.loss_mask.push_back(i < targets ? 1 : 0);
  };
  const std::string_view text = document.text;
  if (document.parts.empty()) {
    const std::vector<int32_t> ids = tokenizer.encode(text);
    append(ids, ids.size());
  }
  size_t begin = 0;
  for (size_t i = 0; i < document.parts.size(); ++i) {
    const DocumentPart& part = document.parts[i];
    const std::string_view piece = text.substr(begin, part.end - begin);
    const std::vector<int32_t> ids = part.mark ? tokenizer.encode_with_special(piece) : tokenizer.encode(piece);
    const bool ends_answer = part.mark && (i + 1 == document.parts.size() || !document.parts[i + 1].answer);
    append(ids, !part.answer ? 0 : ends_answer ? targets_of_end(tokenizer, ids) : ids.size());
    begin = part.end;
  }
  encoded.ids.push_back(tokenizer.end_of_document());
  if (with_mask) encoded.loss_mask.push_back(document.parts.empty() || document.ends_with_answer() ? 1 : 0);
  return encoded;
}

}  // namespace

size_t targets_of_end(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  for (size_t i = 0; i < ids.size(); ++i)
    if (tokenizer.bytes_of(ids[i]).empty()) return i + 1;
  return ids.size();
}

EncodedDocument encode_document(const Tokenizer& tokenizer, const Document& document, bool with_mask) {
  try {
    return encode_parts(tokenizer, document, with_mask);
  } catch (const base::Error& error) {
    if (document.place.empty()) throw;
    base::fail(error.code(), document.place, ": ", error.what());
  }
}

}  // namespace hexad::data
