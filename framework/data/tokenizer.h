// Conversion of text to token ids and back. Every tokenizer has one token per byte value, so any bytes round-trip,
// including invalid UTF-8 and NULs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/tokenizer_file.h"

namespace hexad::data {

/// A tokenizer and its vocabulary. Ids [0, 256) are the bytes. The ids that this kind of tokenizer adds follow. The
/// last two ids are end-of-document and mask. These two have no text: encode() never returns them, and decode() skips
/// them.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Returns the token ids of `text`, without end-of-document. Thread-safe.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  virtual int32_t vocab_size() const = 0;
  /// Returns the bytes of token `id`. Throws Error(data) if `id` is not in the vocabulary.
  virtual std::string_view bytes_of(int32_t id) const = 0;
  virtual TokenizerContents contents() const = 0;

  /// Returns the concatenated bytes of `ids`; they may end inside a UTF-8 sequence. Throws Error(data) if an id is not
  /// in the vocabulary.
  std::string decode(std::span<const int32_t> ids) const;
  /// Ids below this value have text.
  int32_t text_ids() const { return vocab_size() - 2; }
  int32_t end_of_document() const { return vocab_size() - 2; }
  int32_t mask() const { return vocab_size() - 1; }
  /// Returns a digest that is equal for tokenizers that encode every text in the same way. Datasets store it.
  Digest fingerprint() const { return contents().digest(); }
  /// Writes the tokenizer to `path`. Throws Error(resource).
  void save(const std::string& path) const { write_tokenizer_file(path, contents()); }

 protected:
  /// Throws the Error of bytes_of() if `id` is not in the vocabulary.
  void check_id(int32_t id) const;
};

/// Makes a tokenizer with one token per byte: 258 ids.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// Reads a file that save() wrote. Throws Error(data) naming the file and its problem.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

/// Returns the number of bytes of every id, for bits per byte: nats / ln 2 / (sum of the bytes of the predicted ids).
std::vector<int32_t> bytes_per_id(const Tokenizer& tokenizer);

}  // namespace hexad::data
