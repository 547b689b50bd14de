// Conversion between text and token ids. Every tokenizer has a token for each byte value. Therefore any bytes,
// including invalid UTF-8 and zeros, can be encoded and decoded without loss.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/tokenizer_file.h"

namespace hexad::data {

/// A tokenizer and its vocabulary. Ids [0, 256) are the bytes, followed by the ids that this kind of tokenizer adds.
/// The last two ids are end-of-document and mask. They have no text: encode() never returns them, and decode() skips
/// them.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Returns the ids of `text`, without an end-of-document. Thread-safe.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  virtual int32_t vocab_size() const = 0;
  /// Returns the bytes of token `id`. Throws Error(data) if `id` is not in the vocabulary.
  virtual std::string_view bytes_of(int32_t id) const = 0;
  virtual TokenizerContents contents() const = 0;

  /// Returns the concatenated bytes of `ids`, which may end inside a UTF-8 sequence. Throws Error(data) if an id is not
  /// in the vocabulary.
  std::string decode(std::span<const int32_t> ids) const;
  /// Returns the number of ids that have text. The ids [0, text_ids()) have text.
  int32_t text_ids() const { return vocab_size() - 2; }
  int32_t end_of_document() const { return vocab_size() - 2; }
  int32_t mask() const { return vocab_size() - 1; }
  /// Returns a digest that is equal for tokenizers that encode every text in the same way. Datasets store it.
  Digest fingerprint() const { return contents().digest(); }
  /// Writes the tokenizer to `path`. Throws Error(resource) if this fails.
  void save(const std::string& path) const { write_tokenizer_file(path, contents()); }

 protected:
  /// Throws Error(data) if `id` is not in the vocabulary.
  void check_id(int32_t id) const;
};

/// Makes a tokenizer with one token for each byte value; it has 258 ids.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// Reads a file that save() has written. Throws Error(data) that names the file and the problem.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

/// Returns the number of bytes of each id, for bits per byte: nats / ln 2 / (sum of the bytes of the predicted ids).
std::vector<int32_t> bytes_per_id(const Tokenizer& tokenizer);

}  // namespace hexad::data
