// The decoder of a tokenizer.json, reduced to rules that give the bytes of each token.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "framework/data/tokenizers/json_field.h"

namespace hexad::data {

struct DecoderRules {
  bool byte_level = false;     // true: token names are written in the byte alphabet (byte_level.h)
  bool byte_fallback = false;  // true: a token name such as <0x0A> represents one byte
  std::vector<std::pair<std::string, std::string>> replacements = {};
  std::string prefix = {};  // prefix that is removed from a decoded text

  /// Returns the bytes of the token with this name.
  std::string bytes_of(const std::string& name) const;
};

/// Adds the rules of a decoder to `rules`. Throws Error(data) that names the decoder type if it is not supported.
void read_decoder(const JsonField& json, DecoderRules& rules, int depth = 0);

}  // namespace hexad::data
