// The tokenizer file: JSON with format, version, kind, merges or the file of another program, and a digest of these
// members.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/digest.h"

namespace hexad::data {

/// A merge: one new token replaces the adjacent tokens `left` and `right`.
struct Merge {
  int32_t left;
  int32_t right;

  bool operator==(const Merge&) const = default;
};

/// A tokenizer file of another program, and the choices that the file does not contain.
struct TokenizerSource {
  std::string kind;                    // "huggingface", "tiktoken", "tekken" or "sentencepiece"
  std::string bytes;                   // contents of the file
  std::string pattern = {};            // tiktoken: name of the pattern; otherwise empty
  int32_t end_of_document = -1;        // id that ends documents; -1: not chosen yet
  int32_t beginning_of_document = -1;  // id that begins documents; -1: none
};

/// The complete state of a tokenizer, which determines encode() and decode().
struct TokenizerContents {
  std::string kind;                                         // "bytes", "bpe", or the kind of the source
  std::vector<Merge> merges;                                // in order of priority; merge i makes id 256 + i
  std::shared_ptr<const TokenizerSource> source = nullptr;  // null for "bytes" and "bpe"

  Digest digest() const;
};

/// Writes a tokenizer file. Throws Error(resource) if this fails.
void write_tokenizer_file(const std::string& path, const TokenizerContents& contents);

/// Largest tokenizer file in bytes, enough for the largest source in base64.
inline constexpr int64_t largest_tokenizer_file = int64_t{384} << 20;

/// True if `contents` begins like a file of write_tokenizer_file(): the name of the format is in its first bytes.
bool is_tokenizer_file(std::string_view contents);

/// Reads a tokenizer file. Throws Error(data) that names `path` and the problem:
/// - the text is not JSON, or has another format or version, or an unknown kind;
/// - a key is missing or has a wrong type;
/// - a merge refers to ids that do not exist yet, or a tokenizer of kind "bytes" has merges;
/// - the source is not base64, or one of its ids is out of range;
/// - the digest is wrong.
/// The contents of the source are not checked.
TokenizerContents read_tokenizer_file(const std::string& path);

}  // namespace hexad::data
