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

class Pipeline final : public ImportedTokenizer {
 public:
  Pipeline(TokenizerRequest request, PipelineParts parts) : parts_(std::move(parts)) {
    set_names(std::move(request));
    std::vector<AddedToken> original, normalized;
    for (AddedToken& token : parts_.added) {
      // These tokens are special, so that a text cannot end a document or begin another one.
      token.special = token.special || token.id == end_of_document() || token.id == beginning_of_document();
      if (token.normalized) normalize(token.text);
      (token.normalized ? normalized : original).push_back(std::move(token));
    }
    original_ = AddedTokens(std::move(original));
    normalized_ = AddedTokens(std::move(normalized));
  }

  std::vector<int32_t> encode(std::string_view text) const override { return encode(text, false); }
  std::vector<int32_t> encode_with_special(std::string_view text) const override { return encode(text, true); }
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
  // Sets the vocabulary. Special ids are found by parts_.names.
  void set_names(TokenizerRequest request) {
    std::unordered_map<std::string_view, int32_t> ids;
    for (size_t id = 0; id < parts_.names.size(); ++id)
      if (!parts_.names[id].empty()) ids.emplace(parts_.names[id], static_cast<int32_t>(id));
    set_vocabulary(std::move(request), std::move(parts_.bytes), parts_.hints, [&](std::string_view name) {
      const auto found = ids.find(name);
      return found == ids.end() ? std::nullopt : std::optional(found->second);
    });
  }

  // State of one call of encode().
  struct Call {
    PieceCache& cache;
    bool with_special;
    const char* begin;  // begin of the whole text
    std::vector<int32_t> ids = {};
  };

  std::vector<int32_t> encode(std::string_view text, bool with_special) const {
    const PieceCaches::Loan loan(caches_);
    Call call{*loan, with_special, text.data()};
    call.ids.reserve(text.size() / 3);
    while (!text.empty()) {
      const size_t valid = valid_length(text);
      if (valid > 0) encode_valid(text.substr(0, valid), call);
      text.remove_prefix(valid);
      if (text.empty()) break;
      const int32_t id = parts_.model->id_of_byte(static_cast<unsigned char>(text[0]));
      if (id >= 0) {
        call.ids.push_back(id);
      } else {
        encode_valid(replacement, call);
      }
      text.remove_prefix(1);
    }
    return std::move(call.ids);
  }
  void encode_valid(std::string_view text, Call& call) const {
    const auto add = [&](int32_t id) { call.ids.push_back(id); };
    original_.split(
        text, call.with_special,
        [&](std::string_view part) {
          const bool first = part.data() == call.begin;
          if (parts_.normalizers.empty()) return encode_normalized(part, first, call);
          std::string normal(part);
          normalize(normal);
          encode_normalized(normal, first, call);
        },
        add);
  }
  void encode_normalized(std::string_view text, bool first, Call& call) const {
    normalized_.split(
        text, call.with_special,
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
