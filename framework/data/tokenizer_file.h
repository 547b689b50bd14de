// The tokenizer file: JSON with format, version, kind, merges, and a digest of these values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/digest.h"

namespace hexad::data {

/// A merge: adjacent tokens `left` and `right` become one new token.
struct Merge {
  int32_t left;
  int32_t right;

  bool operator==(const Merge&) const = default;
};

/// The complete state of a tokenizer, which determines encode() and decode().
struct TokenizerContents {
  std::string kind;           // "bytes" or "bpe"
  std::vector<Merge> merges;  // merges in order of priority; merge i makes id 256 + i

  Digest digest() const;
};

/// Writes a tokenizer file. Throws Error(resource) if this fails.
void write_tokenizer_file(const std::string& path, const TokenizerContents& contents);

/// Reads a tokenizer file. Throws Error(data) that names `path` and the problem: it is not JSON, has another format or
/// a newer version, keys are missing or have a wrong type, a merge refers to ids that do not exist yet, or the digest
/// is wrong.
TokenizerContents read_tokenizer_file(const std::string& path);

}  // namespace hexad::data
