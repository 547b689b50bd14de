// Text to token ids and back. Every tokenizer here has one token per byte value, so any bytes round-trip: invalid UTF-8
// and NULs included.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/tokenizer_file.h"

namespace hexad::data {

/// Ids [0, 256) are the bytes; then the tokens of the kind; the last two are end-of-document and mask. The two carry no
/// text: encode() never yields them and decode() prints nothing for them.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Token ids of `text`, without end-of-document. Thread-safe.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  virtual int32_t vocab_size() const = 0;
  /// The bytes that `id` stands for. Throws Error(data) when `id` is not in the vocabulary.
  virtual std::string_view bytes_of(int32_t id) const = 0;
  virtual TokenizerContents contents() const = 0;

  /// Concatenated bytes of `ids`; may end inside a UTF-8 sequence. Throws Error(data) on an id outside the vocabulary.
  std::string decode(std::span<const int32_t> ids) const;
  /// Ids below this carry text.
  int32_t text_ids() const { return vocab_size() - 2; }
  int32_t end_of_document() const { return vocab_size() - 2; }
  int32_t mask() const { return vocab_size() - 1; }
  /// Equal for tokenizers that encode every text alike; datasets carry it.
  Digest fingerprint() const { return contents().digest(); }
  /// Throws Error(resource).
  void save(const std::string& path) const { write_tokenizer_file(path, contents()); }

 protected:
  /// Throws the Error of bytes_of.
  void check_id(int32_t id) const;
};

/// One token a byte: 258 ids.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// Reads what save() wrote. Throws Error(data) naming the file and what is wrong with it.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

/// Bytes of every id, for bits per byte: nats / ln 2 / (sum over predicted ids of their bytes).
std::vector<int32_t> bytes_per_id(const Tokenizer& tokenizer);

}  // namespace hexad::data
