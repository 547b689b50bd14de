#include "framework/data/tokenizers/sentence_piece_pairs.h"

#include <cstdint>

#include "framework/data/tokenizers/protobuf.h"
#include "framework/data/tokenizers/sentence_piece_fields.h"

namespace hexad::data {
namespace {

using namespace sentence_piece;

uint64_t packed(std::string_view character) {
  uint64_t value = 0;
  for (const char byte : character) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

// Returns the contents of all fields `number` of a message.
std::vector<std::string_view> contents(std::string_view message, uint64_t number) {
  std::vector<std::string_view> all;
  ProtobufReader reader(message);
  while (const auto field = reader.next())
    if (field->number == number) all.push_back(field->bytes);
  return all;
}

bool writes_unknown_characters_as_bytes(std::string_view model) {
  bool enabled = false;
  for (const std::string_view message : contents(model, trainer)) {
    ProtobufReader reader(message);
    while (const auto field = reader.next())
      if (field->number == byte_fallback) enabled = field->value != 0;
  }
  return enabled;
}

}  // namespace

std::optional<CharacterPairs> CharacterPairs::from_model(std::string_view model) {
  if (!writes_unknown_characters_as_bytes(model)) return std::nullopt;
  CharacterPairs pairs;
  for (const std::string_view message : contents(model, pieces))
    for (const std::string_view token : contents(message, piece_text)) {
      if (token.find(separator) != token.npos || !pairs.add(token)) return std::nullopt;
    }
  return pairs;
}

size_t CharacterPairs::slot_of(std::string_view first, std::string_view second) {
  return (packed(first) << 32 | packed(second)) * 0x9e3779b97f4a7c15u >> (64 - slot_bits);
}

bool CharacterPairs::add(std::string_view token) {
  std::string_view previous;
  while (!token.empty()) {
    const std::string_view character = token.substr(0, base::utf8_length(token));
    if (character.empty()) return false;
    if (!previous.empty()) pairs_[slot_of(previous, character)] = true;
    previous = character;
    token.remove_prefix(character.size());
  }
  return true;
}

bool CharacterPairs::may_be_joined(std::string_view first, std::string_view second) const {
  if (first.empty() || second.empty() || first == " " || second == " ") return true;
  return pairs_[slot_of(first, second)];
}

}  // namespace hexad::data
