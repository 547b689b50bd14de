#include "framework/data/encoding.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "framework/base/error.h"

namespace hexad::data {

namespace {

// A DocumentPart, as bytes [begin, end) of its document.
struct ChatPart {
  size_t begin, end;
  bool mark, answer;
  bool learned;      // true: an answer that is a target
  bool ends_answer;  // true: the mark after an answer
};

struct EncodedPart {
  std::vector<int32_t> ids = {};
  std::vector<uint8_t> loss_mask = {};  // empty if no mask is wanted
};

std::vector<ChatPart> chat_parts(const Document& document) {
  std::vector<ChatPart> parts;
  for (size_t i = 0, begin = 0; i < document.parts.size(); begin = document.parts[i++].end) {
    const DocumentPart& part = document.parts[i];
    const bool last = i + 1 == document.parts.size() || !document.parts[i + 1].answer;
    parts.push_back(
        {begin, part.end, part.mark, part.answer, part.answer && part.learned, part.mark && part.answer && last});
  }
  return parts;
}

// True if `id` is a special token in the text `mark`. Special tokens have no bytes. The id of unknown characters has no
// bytes either, but it is not special.
bool is_special_in(const Tokenizer& tokenizer, std::string_view mark, int32_t id) {
  if (!tokenizer.bytes_of(id).empty()) return false;
  const std::string_view name = tokenizer.special_text(id);
  return !name.empty() && mark.find(name) != mark.npos;
}

bool any_special(const Tokenizer& tokenizer, std::string_view marks) {
  return std::ranges::any_of(tokenizer.encode_with_special(marks),
                             [&](int32_t id) { return is_special_in(tokenizer, marks, id); });
}

// True if part `i` begins an answer, and the marks before the answer contain no special token.
bool begins_plain_answer(const Tokenizer& tokenizer, std::string_view text, std::span<const ChatPart> parts, size_t i) {
  if (!parts[i].answer || (i > 0 && parts[i - 1].answer)) return false;
  size_t first = i;
  while (first > 0 && parts[first - 1].mark) --first;
  const size_t begin = parts[first].begin;
  return !any_special(tokenizer, text.substr(begin, parts[i].begin - begin));
}

// Divides `parts` into sequences that are converted separately (see encode_document()). Returns the index of the first
// part of each sequence, then parts.size().
std::vector<size_t> borders(const Tokenizer& tokenizer, const Document& document, std::span<const ChatPart> parts) {
  const std::string_view text = document.text;
  std::vector<size_t> first{0};
  bool after_plain_end = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const ChatPart& part = parts[i];
    const bool plain_end = part.ends_answer && !any_special(tokenizer, text.substr(part.begin, part.end - part.begin));
    const bool plain_begin = !document.from_chat_template && begins_plain_answer(tokenizer, text, parts, i);
    const bool after_answer =
        !document.from_chat_template && i > 0 && parts[i - 1].answer && !parts[i - 1].mark && !part.answer;
    if (i > 0 && (after_plain_end || plain_end || plain_begin || after_answer)) first.push_back(i);
    after_plain_end = plain_end;
  }
  first.push_back(parts.size());
  return first;
}

// Converts parts one by one, so that the targets of the parts are known without the bytes of tokens.
EncodedPart encode_one_by_one(const Tokenizer& tokenizer, std::string_view document, std::span<const ChatPart> parts,
                              bool with_mask) {
  EncodedPart encoded;
  for (const ChatPart& part : parts) {
    const std::string_view text = document.substr(part.begin, part.end - part.begin);
    const std::vector<int32_t> ids = part.mark ? tokenizer.encode_with_special(text) : tokenizer.encode(text);
    std::ranges::copy(ids, std::back_inserter(encoded.ids));
    if (!with_mask) continue;
    const size_t targets = !part.learned ? 0 : part.ends_answer ? targets_of_end(tokenizer, ids, text) : ids.size();
    for (size_t i = 0; i < ids.size(); ++i) encoded.loss_mask.push_back(i < targets ? 1 : 0);
  }
  return encoded;
}

// Returns the bytes of the learned answers, relative to the start of the first part. The bytes include the mark after
// an answer, up to the end of the mark's first special token.
ByteRanges answers_of(const Tokenizer& tokenizer, std::string_view text, std::span<const int32_t> ids,
                      std::span<const ByteRange> spans, std::span<const ChatPart> parts) {
  ByteRanges answers;
  const size_t origin = parts.front().begin;
  for (const ChatPart& part : parts) {
    if (!part.learned) continue;
    const size_t begin = part.begin - origin;
    size_t end = part.end - origin;
    if (part.ends_answer) {
      const std::string_view mark = text.substr(begin, end - begin);
      auto span = std::ranges::lower_bound(spans, begin, {}, &ByteRange::begin);
      while (span != spans.end() && span->begin < end && !is_special_in(tokenizer, mark, ids[span - spans.begin()]))
        ++span;
      if (span != spans.end() && span->begin < end) end = span->end;
    }
    answers.add(begin, end);
  }
  return answers;
}

EncodedPart encode_together(const Tokenizer& tokenizer, std::string_view document, std::span<const ChatPart> parts,
                            bool with_mask) {
  const size_t origin = parts.front().begin;
  const std::string_view text = document.substr(origin, parts.back().end - origin);
  ByteRanges marks;
  for (const ChatPart& part : parts)
    if (part.mark) marks.add(part.begin - origin, part.end - origin);
  EncodedPart encoded{.ids = tokenizer.encode_with_special(text, marks)};
  const auto spans = token_spans(tokenizer, encoded.ids, text);
  if (!spans) return encode_one_by_one(tokenizer, document, parts, with_mask);
  if (!with_mask) return encoded;
  const ByteRanges answers = answers_of(tokenizer, text, encoded.ids, *spans, parts);
  for (const ByteRange& span : *spans) encoded.loss_mask.push_back(answers.overlaps(span.begin, span.end) ? 1 : 0);
  return encoded;
}

EncodedDocument encode_parts(const Tokenizer& tokenizer, const Document& document, bool with_mask) {
  EncodedDocument encoded{.text_bytes = static_cast<int64_t>(document.text.size())};
  if (document.parts.empty()) {
    encoded.ids = tokenizer.encode(document.text);
    if (with_mask) encoded.loss_mask.assign(encoded.ids.size(), 1);
  }
  const std::vector<ChatPart> parts = chat_parts(document);
  const std::vector<size_t> first = borders(tokenizer, document, parts);
  for (size_t i = 0; i + 1 < first.size() && first[i] < parts.size(); ++i) {
    const EncodedPart part = encode_together(tokenizer, document.text,
                                             std::span(parts).subspan(first[i], first[i + 1] - first[i]), with_mask);
    std::ranges::copy(part.ids, std::back_inserter(encoded.ids));
    std::ranges::copy(part.loss_mask, std::back_inserter(encoded.loss_mask));
  }
  // Inserts the beginning-of-document token if the ids do not begin with it. The marks of a chat form may begin with
  // it.
  const auto beginning = tokenizer.beginning_of_document();
  if (beginning && (encoded.ids.empty() || encoded.ids.front() != *beginning)) {
    encoded.ids.insert(encoded.ids.begin(), *beginning);
    if (with_mask) encoded.loss_mask.insert(encoded.loss_mask.begin(), 0);
  }
  encoded.ids.push_back(tokenizer.end_of_document());
  if (with_mask) encoded.loss_mask.push_back(document.parts.empty() || document.ends_with_answer() ? 1 : 0);
  return encoded;
}

}  // namespace

size_t targets_of_end(const Tokenizer& tokenizer, std::span<const int32_t> ids, std::string_view mark) {
  for (size_t i = 0; i < ids.size(); ++i)
    if (is_special_in(tokenizer, mark, ids[i])) return i + 1;
  return ids.size();
}

std::vector<int32_t> ids_after_answer(const Tokenizer& tokenizer, std::string_view mark) {
  std::vector<int32_t> ids = tokenizer.encode_with_special(mark);
  if (any_special(tokenizer, mark)) {
    // Converts the mark together with an answer before it, because the tokenizer may insert a space at the beginning of
    // a text.
    constexpr std::string_view answer = "a";
    const std::string text = base::cat(answer, mark);
    ByteRanges marks;
    marks.add(answer.size(), text.size());
    std::vector<int32_t> all = tokenizer.encode_with_special(text, marks);
    if (const auto spans = token_spans(tokenizer, all, text)) {
      const auto first = std::ranges::find(*spans, answer.size(), &ByteRange::begin);
      if (first != spans->end()) ids.assign(all.begin() + (first - spans->begin()), all.end());
    }
  }
  ids.resize(targets_of_end(tokenizer, ids, mark));
  return ids;
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
