#include "framework/data/tokenizers/sentence_piece_words.h"

#include "framework/data/tokenizers/metaspace.h"
#include "framework/data/tokenizers/protobuf.h"
#include "framework/data/tokenizers/sentence_piece_fields.h"

namespace hexad::data {
namespace {

using namespace sentence_piece;

constexpr uint64_t bpe = 2;  // value of model_type for BPE

// True if `token` contains U+2581, which represents a space, after another character, or an ASCII space anywhere.
bool continues_after_space(std::string_view token) {
  if (token.find(' ') != token.npos) return true;
  while (token.starts_with(metaspace)) token.remove_prefix(metaspace.size());
  return token.find(metaspace) != token.npos;
}

struct Facts {
  bool is_bpe = false, has_space = false, all_separate = true;
  bool changes_nothing = true, adds_prefix = true, keeps_spaces = false, escapes = true, prefix_side = true;

  void read_piece(std::string_view message) {
    ProtobufReader reader(message);
    while (const auto field = reader.next()) {
      if (field->number != piece_text) continue;
      has_space = has_space || field->bytes == metaspace;
      all_separate = all_separate && !continues_after_space(field->bytes);
    }
  }
  void read_trainer(std::string_view message) {
    ProtobufReader reader(message);
    while (const auto field = reader.next()) {
      if (field->number == model_type) is_bpe = field->value == bpe;
      if (field->number == whitespace_as_suffix) prefix_side = field->value == 0;
    }
  }
  void read_normalizer(std::string_view message) {
    ProtobufReader reader(message);
    while (const auto field = reader.next()) {
      if (field->number == character_map) changes_nothing = field->bytes.empty();
      if (field->number == dummy_prefix) adds_prefix = field->value != 0;
      if (field->number == remove_extra_spaces) keeps_spaces = field->value == 0;
      if (field->number == escape_spaces) escapes = field->value != 0;
    }
  }
};

}  // namespace

bool words_are_independent(std::string_view model) {
  Facts facts;
  ProtobufReader reader(model);
  while (const auto field = reader.next()) {
    if (field->number == pieces) facts.read_piece(field->bytes);
    if (field->number == trainer) facts.read_trainer(field->bytes);
    if (field->number == normalizer) facts.read_normalizer(field->bytes);
  }
  return facts.is_bpe && facts.has_space && facts.all_separate && facts.changes_nothing && facts.adds_prefix &&
         facts.keeps_spaces && facts.escapes && facts.prefix_side;
}

}  // namespace hexad::data
