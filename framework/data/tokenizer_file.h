// The tokenizer file: JSON with format, version, kind, merges and a digest of the rest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/digest.h"

namespace hexad::data {

/// Tokens `left` and `right`, side by side, become one new token.
struct Merge {
  int32_t left;
  int32_t right;

  bool operator==(const Merge&) const = default;
};

/// All that a tokenizer is: everything that encode() and decode() depend on.
struct TokenizerContents {
  std::string kind;           // "bytes" or "bpe"
  std::vector<Merge> merges;  // in order of priority; merge i makes id 256 + i

  Digest digest() const;
};

/// Throws Error(resource).
void write_tokenizer_file(const std::string& path, const TokenizerContents& contents);

/// Throws Error(data) naming `path` and what is wrong: not JSON, other format, newer version, missing or mistyped keys,
/// a merge of ids that do not exist yet, a digest that does not match.
TokenizerContents read_tokenizer_file(const std::string& path);

}  // namespace hexad::data
