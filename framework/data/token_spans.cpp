#include "framework/data/encoding.h"

#include <algorithm>
#include <string>

#include "framework/data/tokenizers/code_point.h"

namespace hexad::data {
namespace {

// Returns the bytes that the tokenizer inserts before a text; empty if there are none.
std::string inserted_before_text(const Tokenizer& tokenizer) {
  std::string bytes;
  for (const int32_t id : tokenizer.encode("a")) bytes += tokenizer.bytes_of(id);
  if (!bytes.ends_with('a')) return {};
  bytes.pop_back();
  return bytes;
}

// Finds the range of bytes that each id has in a text, from the first id to the last.
class SpanFinder {
 public:
  SpanFinder(const Tokenizer& tokenizer, std::string_view text) : tokenizer_(tokenizer), text_(text) {}

  // Matches a special token with the text. take_special() and take_text() return false if the text does not continue
  // with the ids.
  bool take_special(int32_t id) {
    const std::string_view name = tokenizer_.special_text(id);
    if (name.empty() || !(goes_on_with(at_, name) || goes_on_with(after_space(), name))) return false;
    if (!goes_on_with(at_, name)) at_ = after_space();
    spans_.push_back({at_, at_ + name.size()});
    at_ += name.size();
    after_special_ = true;
    return true;
  }
  // Matches the ids between two special tokens with the text. The tokenizer may have inserted bytes before the text of
  // these ids.
  bool take_text(std::span<const int32_t> ids) {
    std::string bytes;
    for (const int32_t id : ids) bytes += tokenizer_.bytes_of(id);
    const std::string prefix = goes_on_with(at_, bytes) ? std::string() : inserted_before_text(tokenizer_);
    for (const size_t begin : {at_, after_special_ ? after_space() : at_}) {
      for (const size_t inserted : {size_t{0}, bytes.starts_with(prefix) ? prefix.size() : size_t{0}}) {
        if (!goes_on_with(begin, std::string_view(bytes).substr(inserted))) continue;
        at_ = begin;
        add_spans(ids, inserted);
        after_special_ = false;
        return true;
      }
    }
    return false;
  }
  bool finish() { return at_ == text_.size() || (after_special_ && after_space() == text_.size()); }
  std::vector<ByteRange> spans() && { return std::move(spans_); }

 private:
  bool goes_on_with(size_t at, std::string_view bytes) const { return text_.substr(at).starts_with(bytes); }
  size_t after_space() const { return text_.size() - without_leading_space(text_.substr(at_)).size(); }
  // Adds the spans of ids. The first `inserted` of their bytes come from the tokenizer and are not in the text.
  void add_spans(std::span<const int32_t> ids, size_t inserted) {
    for (const int32_t id : ids) {
      const size_t size = tokenizer_.bytes_of(id).size(), left_out = std::min(inserted, size);
      const size_t end = at_ + size - left_out;
      spans_.push_back({at_, end > at_ ? end : std::min(at_ + 1, text_.size())});
      inserted -= left_out;
      at_ = end;
    }
  }

  const Tokenizer& tokenizer_;
  std::string_view text_;
  size_t at_ = 0;               // index of the first byte after the ids that have been matched
  bool after_special_ = false;  // true: the last id is a special token, which may include white space after it
  std::vector<ByteRange> spans_;
};

}  // namespace

std::optional<std::vector<ByteRange>> token_spans(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                                                  std::string_view text) {
  SpanFinder finder(tokenizer, text);
  const auto is_special = [&](int32_t id) { return tokenizer.bytes_of(id).empty(); };
  while (!ids.empty()) {
    const size_t text_ids = std::ranges::find_if(ids, is_special) - ids.begin();
    if (!(text_ids == 0 ? finder.take_special(ids.front()) : finder.take_text(ids.first(text_ids))))
      return std::nullopt;
    ids = ids.subspan(std::max<size_t>(text_ids, 1));
  }
  if (!finder.finish()) return std::nullopt;
  return std::move(finder).spans();
}

}  // namespace hexad::data
