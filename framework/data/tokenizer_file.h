// The tokenizer file: JSON with format, version, kind, merges and a digest of the rest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/digest.h"

namespace hexad::data {

/// A merge of two tokens: adjacent tokens `left` and `right` become one new token.
struct Merge {
  int32_t left;
  int32_t right;

  bool operator==(const Merge&) const = default;
};

/// The complete state of a tokenizer: encode() and decode() depend on nothing else.
struct TokenizerContents {
  std::string kind;           // "bytes" or "bpe"
  std::vector<Merge> merges;  // in order of priority; merge i makes id 256 + i

  Digest digest() const;
};

/// Writes a tokenizer file. Throws Error(resource).
void write_tokenizer_file(const std::string& path, const TokenizerContents& contents);

/// Reads a tokenizer file. Throws Error(data) naming `path` and the problem. Problems are: not JSON, another format, a
/// newer version, missing or mistyped keys, a merge of ids that do not exist yet, a wrong digest.
TokenizerContents read_tokenizer_file(const std::string& path);

}  // namespace hexad::data
