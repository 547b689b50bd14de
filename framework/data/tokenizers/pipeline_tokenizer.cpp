#include "framework/data/tokenizers/pipeline_tokenizer.h"

#include <algorithm>
#include <unordered_map>

#include "framework/base/error.h"
#include "framework/base/utf8.h"
#include "framework/data/tokenizers/imported_tokenizer.h"

namespace hexad::data {

using namespace base;
namespace {

constexpr std::string_view replacement = "\xef\xbf\xbd";  // U+FFFD

// Returns the length of the valid UTF-8 at the beginning of `text`.
size_t valid_length(std::string_view text) {
  size_t n = 0;
  while (n < text.size()) {
    if (static_cast<unsigned char>(text[n]) < 0x80) {
      ++n;
    } else if (const size_t length = utf8_length(text.substr(n, 4)); length > 0) {
      n += length;
    } else {
      break;
    }
  }
  return n;
}

// Returns `ranges` of `text` without characters that the ranges contain only in part.
ByteRanges whole_characters(std::string_view text, const ByteRanges& ranges) {
  const auto inside = [&](size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  ByteRanges whole;
  for (auto [begin, end] : ranges.ranges()) {
    while (inside(begin)) ++begin;
    while (inside(end)) --end;
    whole.add(begin, end);
  }
  return whole;
}

class Pipeline final : public ImportedTokenizer {
 public:
  Pipeline(TokenizerRequest request, PipelineParts parts) : parts_(std::move(parts)) {
    set_names(std::move(request));
    std::vector<AddedToken> original, normalized;
    for (AddedToken& token : parts_.added) {
      // The tokens that end and begin documents are special, so that a text cannot end or begin a document.
      token.special = token.special || token.id == end_of_document() || token.id == beginning_of_document();
      if (token.normalized) normalize(token.text);
      (token.normalized ? normalized : original).push_back(std::move(token));
    }
    original_ = AddedTokens(std::move(original));
    normalized_ = AddedTokens(std::move(normalized));
  }

  std::vector<int32_t> encode(std::string_view text) const override { return encode_with_special(text, {}); }
  using Tokenizer::encode_with_special;
  std::vector<int32_t> encode_with_special(std::string_view text, const ByteRanges& trusted) const override {
    const PieceCaches::Loan loan(caches_);
    Call call{*loan, text.data()};
    call.ids.reserve(text.size() / 3);
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = begin + valid_length(text.substr(begin));
      if (end > begin) encode_valid(text.substr(begin, end - begin), trusted.slice(begin, end), call);
      if (end == text.size()) break;
      const int32_t id = parts_.model->id_of_byte(static_cast<unsigned char>(text[end]));
      if (id >= 0) {
        call.ids.push_back(id);
      } else {
        encode_valid(replacement, {}, call);
      }
      begin = end + 1;
    }
    return std::move(call.ids);
  }
  std::string left_out() const override { return parts_.model->left_out(); }
  std::string_view special_text(int32_t id) const override {
    if (!bytes_of(id).empty() || id >= std::ssize(parts_.names)) return {};
    return parts_.names[id];
  }

 protected:
  void remove_prefix(std::string& text) const override {
    if (!parts_.decoded_prefix.empty() && text.starts_with(parts_.decoded_prefix))
      text.erase(0, parts_.decoded_prefix.size());
  }

 private:
  // Sets the vocabulary. Finds the special ids by parts_.names.
  void set_names(TokenizerRequest request) {
    std::unordered_map<std::string_view, int32_t> ids;
    for (size_t id = 0; id < parts_.names.size(); ++id)
      if (!parts_.names[id].empty()) ids.emplace(parts_.names[id], static_cast<int32_t>(id));
    set_vocabulary(std::move(request), std::move(parts_.bytes), parts_.hints, [&](std::string_view name) {
      const auto found = ids.find(name);
      return found == ids.end() ? std::nullopt : std::optional(found->second);
    });
  }

  // State of one call of encode_with_special().
  struct Call {
    PieceCache& cache;
    const char* begin;  // beginning of the whole text
    std::vector<int32_t> ids = {};
  };

  // Encodes valid UTF-8. `trusted` are ranges of `text`.
  void encode_valid(std::string_view text, const ByteRanges& trusted, Call& call) const {
    original_.split(
        text, trusted,
        [&](std::string_view part) {
          const size_t begin = part.data() - text.data();
          const ByteRanges trusted_part = trusted.slice(begin, begin + part.size());
          if (!marks_have_special(part, trusted_part)) return encode_part(part, trusted_part, call);
          // The ranges `trusted` are not known in the normalized text. Trusted text (marks of the chat form) and other
          // text (messages) are therefore encoded separately.
          const ByteRanges marks = whole_characters(part, trusted_part);
          size_t done = 0;
          for (const auto [from, to] : marks.ranges()) {
            if (from > done) encode_part(part.substr(done, from - done), {}, call);
            encode_part(part.substr(from, to - from), ByteRanges::everything(), call);
            done = to;
          }
          if (done < part.size()) encode_part(part.substr(done), {}, call);
        },
        [&](int32_t id) { call.ids.push_back(id); });
  }
  // True if only some bytes of the text are trusted, and the normalized text of these bytes contains special tokens.
  bool marks_have_special(std::string_view part, const ByteRanges& trusted) const {
    if (parts_.normalizers.empty() || !normalized_.have_special() || trusted.contains(0, part.size())) return false;
    const ByteRanges marks = whole_characters(part, trusted);
    return std::ranges::any_of(marks.ranges(), [&](const ByteRange& mark) {
      std::string normal(part.substr(mark.begin, mark.end - mark.begin));
      normalize(normal);
      return normalized_.have_special_in(normal);
    });
  }
  // Encodes a text that contains no tokens of original_. Special tokens of a text that is normalized are recognised
  // only if `trusted` contains the whole text.
  void encode_part(std::string_view part, const ByteRanges& trusted, Call& call) const {
    const bool first = part.data() == call.begin;
    if (parts_.normalizers.empty()) return encode_normalized(part, trusted, first, call);
    std::string normal(part);
    normalize(normal);
    encode_normalized(normal, trusted.contains(0, part.size()) ? ByteRanges::everything() : ByteRanges(), first, call);
  }
  void encode_normalized(std::string_view text, const ByteRanges& trusted, bool first, Call& call) const {
    normalized_.split(
        text, trusted,
        [&](std::string_view part) {
          const PieceList list = parts_.pre_tokenizers.split(part, first && part.data() == text.data());
          for (const Piece& piece : list.pieces) parts_.model->encode(piece.text, call.cache, call.ids);
        },
        [&](int32_t id) { call.ids.push_back(id); });
  }
  void normalize(std::string& text) const {
    for (const Normalizer& normalizer : parts_.normalizers) normalizer(text);
  }

  PipelineParts parts_;
  AddedTokens original_, normalized_;
  mutable PieceCaches caches_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_pipeline(TokenizerRequest request, PipelineParts parts) {
  return std::make_unique<Pipeline>(std::move(request), std::move(parts));
}

}  // namespace hexad::data
