// Tokenizer for .model files of SentencePiece. It uses the SentencePiece library.
#include <sentencepiece_processor.h>

#include <memory>

#include "framework/base/error.h"
#include "framework/data/tokenizers/added_tokens.h"
#include "framework/data/tokenizers/byte_level.h"
#include "framework/data/tokenizers/imported_tokenizer.h"
#include "framework/data/tokenizers/metaspace.h"
#include "framework/data/tokenizers/normalizers.h"
#include "framework/data/tokenizers/piece_cache.h"
#include "framework/data/tokenizers/sentence_piece_pairs.h"
#include "framework/data/tokenizers/sentence_piece_words.h"

namespace hexad::data {

using namespace base;
namespace {

class SentencePiece final : public ImportedTokenizer {
 public:
  explicit SentencePiece(TokenizerRequest request) {
    const auto loaded = processor_.LoadFromSerializedProto(request.source.bytes);
    if (!loaded.ok()) fail(ExitCode::data, request.path, ": damaged SentencePiece model: ", loaded.error_message());
    const int size = processor_.GetPieceSize();
    if (size < 1 || size > max_ids)
      fail(ExitCode::data, request.path, ": damaged SentencePiece model: ", size, " tokens, expected 1 to ", max_ids);
    std::vector<std::string> bytes;
    for (int id = 0; id < size; ++id) bytes.push_back(text_of(id));
    special_ = control_tokens();
    by_words_ = words_are_independent(request.source.bytes);
    if (by_words_) pairs_ = CharacterPairs::from_model(request.source.bytes);
    if (pairs_) append(CharacterPairs::separator, separator_ids_);
    SpecialHints hints;
    if (processor_.bos_id() >= 0) hints.beginning = processor_.bos_id();
    if (processor_.eos_id() >= 0) hints.end = processor_.eos_id();
    set_vocabulary(std::move(request), std::move(bytes), hints, [&](std::string_view name) { return id_of(name); });
    // Finds out whether the model inserts a space before each text. decode() must remove such a space.
    const std::vector<int32_t> letter = encode("a");
    has_dummy_prefix_ = decode(letter).starts_with(' ');
  }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    if (!by_words_) {
      append(text, ids);
      return ids;
    }
    const PieceCaches::Loan words(words_), parts(parts_);
    for_each_word(text, [&](std::string_view word) {
      (*words).append(word, ids, [&] { pairs_ ? append_parts(word, *words, *parts, ids) : append(word, ids); });
    });
    return ids;
  }
  using Tokenizer::encode_with_special;
  std::vector<int32_t> encode_with_special(std::string_view text, const ByteRanges& trusted) const override {
    std::vector<int32_t> ids;
    special_.split(
        text, trusted,
        [&](std::string_view part) {
          const std::vector<int32_t> found = encode(part);
          ids.insert(ids.end(), found.begin(), found.end());
        },
        [&](int32_t id) { ids.push_back(id); });
    return ids;
  }
  std::string_view special_text(int32_t id) const override {
    if (!bytes_of(id).empty() || processor_.IsUnused(id)) return {};
    return processor_.IdToPiece(id);
  }

 protected:
  void remove_prefix(std::string& text) const override {
    if (has_dummy_prefix_ && text.starts_with(' ')) text.erase(0, 1);
  }

 private:
  AddedTokens control_tokens() const {
    std::vector<AddedToken> tokens;
    for (int id = 0; id < processor_.GetPieceSize(); ++id)
      if (processor_.IsControl(id))
        tokens.push_back({.id = id,
                          .text = processor_.IdToPiece(id),
                          .special = true,
                          .normalized = false,
                          .single_word = false,
                          .strip_left = false,
                          .strip_right = false});
    return AddedTokens(std::move(tokens));
  }
  // Appends the ids of a word part by part. The library inserts a space before each text, but in a word only the first
  // part has this space. `words` caches parts with the space, and `parts` caches parts without it.
  void append_parts(std::string_view word, PieceCache& words, PieceCache& parts, std::vector<int32_t>& ids) const {
    pairs_->for_each_part(word, [&](std::string_view part, bool is_first) {
      if (is_first && part.size() == word.size()) return append(word, ids);
      if (is_first) return words.append(part, ids, [&] { append(part, ids); });
      parts.append(part, ids, [&] {
        std::vector<int32_t> found;
        append(cat(CharacterPairs::separator, part), found);
        ids.insert(ids.end(), found.begin() + std::ssize(separator_ids_), found.end());
      });
    });
  }
  void append(std::string_view text, std::vector<int32_t>& ids) const {
    std::vector<int> found;
    const auto status = processor_.Encode(text, &found);
    if (!status.ok()) fail(ExitCode::data, "SentencePiece cannot encode a text: ", status.error_message());
    ids.insert(ids.end(), found.begin(), found.end());
  }
  std::string text_of(int id) const {
    std::string text = processor_.IdToPiece(id);
    if (processor_.IsControl(id) || processor_.IsUnused(id)) return "";
    if (processor_.IsByte(id)) {
      for (int b = 0; b < 256; ++b)
        if (fallback_name(static_cast<unsigned char>(b)) == text) return std::string(1, static_cast<char>(b));
    }
    if (processor_.IsUnknown(id)) return " \xe2\x81\x87 ";  // the text to which SentencePiece decodes an unknown id
    replace_all(text, metaspace, " ");
    return text;
  }
  std::optional<int32_t> id_of(std::string_view name) const {
    const int id = processor_.PieceToId(name);
    return processor_.IdToPiece(id) == name ? std::optional(id) : std::nullopt;
  }

  sentencepiece::SentencePieceProcessor processor_;
  AddedTokens special_;
  bool has_dummy_prefix_ = false, by_words_ = false;
  std::optional<CharacterPairs> pairs_;
  std::vector<int32_t> separator_ids_;  // ids of the separator alone, with the inserted space
  mutable PieceCaches words_;           // ids of words and of first parts, which begin with the inserted space
  mutable PieceCaches parts_;           // ids of later parts of words
};

}  // namespace

std::unique_ptr<Tokenizer> make_sentence_piece(TokenizerRequest request) {
  return std::make_unique<SentencePiece>(std::move(request));
}

}  // namespace hexad::data
