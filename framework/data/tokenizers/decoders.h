// The decoder of a tokenizer.json, as the text of each id.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "framework/data/tokenizers/json_field.h"

namespace hexad::data {

struct DecoderRules {
  bool byte_level = false;     // names are written in the byte alphabet
  bool byte_fallback = false;  // names such as <0x0A> are bytes
  std::vector<std::pair<std::string, std::string>> replacements = {};
  std::string prefix = {};  // taken away from the beginning of a decoded text

  /// Returns the bytes of a token.
  std::string bytes_of(const std::string& name) const;
};

/// Adds the rules of a decoder to `rules`. Throws Error(data) that names a kind that is not supported.
void read_decoder(const JsonField& json, DecoderRules& rules, int depth = 0);

}  // namespace hexad::data
