#include "framework/data/tokenizers/hugging_face_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "framework/base/counted.h"
#include "framework/base/json_kind.h"
#include "framework/base/utf8.h"
#include "framework/data/tokenizers/bpe_model.h"
#include "framework/data/tokenizers/byte_level.h"
#include "framework/data/tokenizers/code_point.h"
#include "framework/data/tokenizers/tokenizer_source.h"
#include "framework/data/tokenizers/unigram_model.h"

namespace hexad::data {
namespace {

void read_vocabulary(const JsonField& json, Vocabulary& vocabulary) {
  if (!json.json().is_object()) json.fail(" is ", base::json_kind(json.json()), ", expected an object");
  for (const auto& [name, id] : json.json().items()) {
    const bool legal = id.is_number_unsigned() && id.get<uint64_t>() < static_cast<uint64_t>(max_ids);
    if (!legal)
      json.fail(": token '", name, "' has ",
                id.is_number() ? base::cat("the id ", id.dump()) : base::cat("an id that is ", base::json_kind(id)),
                ", expected a whole number from 0 to ", max_ids - 1);
    vocabulary.add(name, id.get<int32_t>(), json);
  }
}

// A merge, given by the names of its two tokens.
struct NamedMerge {
  std::string_view left, right;
};

// Reads "left right", or the list ["left", "right"].
NamedMerge merge_of(const JsonField& json) {
  if (json.json().is_array()) {
    if (json.size() != 2) json.fail(" has ", base::counted(std::ssize(json), "part"), ", expected 2");
    return {json.at(0).text(), json.at(1).text()};
  }
  const std::string_view text = json.text();
  const size_t space = text.find(' ');
  if (space == text.npos || text.find(' ', space + 1) != text.npos)
    json.fail(" is '", text, "', expected two tokens separated by one space");
  return {text.substr(0, space), text.substr(space + 1)};
}

int32_t id_of(const Vocabulary& vocabulary, std::string_view name, const JsonField& place) {
  const auto id = vocabulary.id_of(name);
  if (!id) place.fail(": token '", name, "' is not in the vocabulary, expected a token of the vocabulary");
  return *id;
}

ByteIds fallback_ids(const Vocabulary& vocabulary) {
  ByteIds ids = no_byte_ids();
  for (size_t b = 0; b < ids.size(); ++b)
    ids[b] = vocabulary.id_of(fallback_name(static_cast<unsigned char>(b))).value_or(-1);
  return ids;
}

class BpeReader {
 public:
  BpeReader(const JsonField& json, bool byte_level, const SpecialTexts& special, const Vocabulary& vocabulary)
      : json_(json), byte_level_(byte_level), special_(special), vocabulary_(vocabulary) {}

  std::unique_ptr<TextModel> read() {
    refuse_what_is_not_supported();
    if (const auto name = json_.find("unk_token")) parts_.bpe.unknown = id_of(vocabulary_, name->text(), *name);
    parts_.fuse_unknown = json_.flag("fuse_unk", false);
    if (byte_level_) {
      read_bytes();
    } else {
      read_characters();
    }
    read_merges();
    if (json_.flag("ignore_merges", false)) read_whole_pieces();
    return byte_level_ ? make_byte_bpe(std::move(parts_.bpe)) : make_character_bpe(std::move(parts_));
  }

 private:
  void refuse_what_is_not_supported() const {
    if (const auto dropout = json_.find("dropout"); dropout && dropout->number() != 0)
      dropout->fail_unsupported(" is ", dropout->number(), ", expected none");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (const std::string affix = json_.text(key, ""); !affix.empty())
        json_[key].fail_unsupported(" is '", affix, "', expected none");
  }
  void read_bytes() {
    for (size_t id = 0; id < vocabulary_.names().size(); ++id) {
      const auto bytes = bytes_of_symbols(vocabulary_.names()[id]);
      if (bytes && bytes->size() == 1) parts_.bpe.bytes[static_cast<unsigned char>(bytes->front())] = int32_t(id);
    }
    const bool fuses = parts_.fuse_unknown && parts_.bpe.unknown >= 0;
    if ((fuses || json_.flag("byte_fallback", false)) && !all_bytes(parts_.bpe.bytes))
      json_["vocab"].fail_unsupported(" lacks a token for the byte ",
                                      std::ranges::find(parts_.bpe.bytes, -1) - parts_.bpe.bytes.begin(),
                                      ", expected tokens for all 256 bytes, because the tokenizer uses ByteLevel and ",
                                      fuses ? "fuse_unk" : "byte_fallback");
  }
  void read_characters() {
    for (size_t id = 0; id < vocabulary_.names().size(); ++id) {
      const std::string& name = vocabulary_.names()[id];
      if (!name.empty() && base::utf8_length(name) == name.size())
        parts_.characters[code_point_at(name).value] = static_cast<int32_t>(id);
    }
    if (json_.flag("byte_fallback", false)) parts_.bpe.bytes = fallback_ids(vocabulary_);
  }
  void read_merges() {
    const JsonField list = json_["merges"];
    parts_.bpe.merges = PairTable(list.size());
    bool merges_fallback = false;  // true if a merge contains a token whose name differs from its text
    for (size_t i = 0; i < list.size(); ++i) {
      const JsonField merge = list.at(i);
      const auto [left, right] = merge_of(merge);
      if (left.empty() || right.empty()) merge.fail(" has an empty part, expected two tokens that are not empty");
      const int32_t left_id = id_of(vocabulary_, left, merge), right_id = id_of(vocabulary_, right, merge);
      const int32_t id = id_of(vocabulary_, std::string(left).append(right), merge);
      parts_.bpe.merges.set(left_id, right_id, {static_cast<int32_t>(i), id});
      if (byte_level_) continue;
      merges_fallback = merges_fallback || has_other_text(left_id) || has_other_text(right_id);
      parts_.joints.set(static_cast<int32_t>(last_code_point(left).value),
                        static_cast<int32_t>(code_point_at(right).value), {});
    }
    if (merges_fallback) parts_.joints = PairTable();
  }
  bool has_other_text(int32_t id) const {
    return id == parts_.bpe.unknown || std::ranges::find(parts_.bpe.bytes, id) != parts_.bpe.bytes.end();
  }
  void read_whole_pieces() {
    for (size_t id = 0; id < vocabulary_.names().size(); ++id) {
      const std::string& name = vocabulary_.names()[id];
      if (special_.contains(name)) continue;
      const auto bytes = byte_level_ ? bytes_of_symbols(name) : std::optional(name);
      if (bytes && !bytes->empty()) parts_.bpe.whole_pieces.emplace(*bytes, static_cast<int32_t>(id));
    }
  }

  const JsonField& json_;
  bool byte_level_;
  const SpecialTexts& special_;
  const Vocabulary& vocabulary_;
  CharacterBpeParts parts_;
};

std::unique_ptr<TextModel> read_unigram(const JsonField& json, bool byte_level, const SpecialTexts& special,
                                        Vocabulary& vocabulary) {
  if (byte_level) json.fail_unsupported(" is Unigram with a ByteLevel pre-tokenizer, expected another pre-tokenizer");
  const JsonField list = json["vocab"];
  if (list.size() == 0 || std::ssize(list) > max_ids)
    list.fail(" has ", list.size(), " tokens, expected 1 to ", max_ids);
  UnigramParts parts;
  for (size_t i = 0; i < list.size(); ++i) {
    const JsonField entry = list.at(i);
    if (entry.size() != 2)
      entry.fail(" has ", base::counted(std::ssize(entry), "element"), ", expected a token and its score");
    UnigramPiece piece{entry.at(0).text(), entry.at(1).number()};
    if (piece.text.empty()) entry.fail(" is an empty token, expected at least one character");
    if (!std::isfinite(piece.score)) entry.fail(" has the score ", piece.score, ", expected a finite number");
    piece.hidden = special.contains(piece.text);
    vocabulary.add(piece.text, static_cast<int32_t>(i), list);
    parts.pieces.push_back(std::move(piece));
  }
  parts.unknown = static_cast<int32_t>(json["unk_id"].integer(0, vocabulary.size() - 1));
  if (json.flag("byte_fallback", false)) parts.bytes = fallback_ids(vocabulary);
  return make_unigram(std::move(parts));
}

}  // namespace

std::unique_ptr<TextModel> read_model(const JsonField& json, bool byte_level, const SpecialTexts& special,
                                      Vocabulary& vocabulary) {
  // Files of older versions of Hugging Face's tokenizers library may have no type. A model with merges is then BPE.
  const std::string type = json.text("type", json.find("merges") ? "BPE" : "");
  if (type == "Unigram") return read_unigram(json, byte_level, special, vocabulary);
  if (type != "BPE") json.fail_unsupported(" is of type '", type, "', expected BPE or Unigram");
  read_vocabulary(json["vocab"], vocabulary);
  return BpeReader(json, byte_level, special, vocabulary).read();
}

}  // namespace hexad::data
