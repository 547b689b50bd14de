// Conversion between text and token ids. A tokenizer that Hexad has trained has a token for each byte value. Therefore
// any bytes, including invalid UTF-8 and zeros, can be encoded and decoded without loss. A tokenizer of another program
// may lose information, for example by Unicode normalization.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/byte_ranges.h"
#include "framework/data/tokenizer_file.h"

namespace hexad::data {

/// A tokenizer and its vocabulary. The end-of-document and mask tokens have no text: encode() never returns them, and
/// decode() skips them. In a tokenizer that Hexad has trained, ids [0, 256) are the bytes, and the last two ids are
/// end-of-document and mask.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Returns the ids of `text`, without an end-of-document token. Thread-safe.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  /// Like encode(), but converts each special token inside one of the ranges `trusted` to its id. Only text that does
  /// not come from users, such as the text of chat templates, may be trusted.
  virtual std::vector<int32_t> encode_with_special(std::string_view text, const ByteRanges& /*trusted*/) const {
    return encode(text);
  }
  /// Like encode_with_special(text, trusted), but trusts the whole text.
  std::vector<int32_t> encode_with_special(std::string_view text) const {
    return encode_with_special(text, ByteRanges::everything());
  }
  /// Returns a description of the text that encode() leaves out, for warnings, such as "has no token for 2 bytes (0x00
  /// 0x1f)". Returns an empty string if encode() leaves out nothing.
  virtual std::string left_out() const { return {}; }
  virtual int32_t vocab_size() const = 0;
  /// Returns the bytes of token `id`; empty for special tokens. Throws Error(data) if `id` is not in the vocabulary.
  virtual std::string_view bytes_of(int32_t id) const = 0;
  virtual TokenizerContents contents() const = 0;

  /// Returns the text of the special token `id`, such as <|im_end|>. Returns an empty string if the token is not
  /// special, or if the tokenizer has no text for it. Throws Error(data) if `id` is not in the vocabulary.
  virtual std::string_view special_text(int32_t id) const;

  /// Returns the text of `ids`: their bytes without the prefix that the tokenizer adds to a text, such as a space. The
  /// text may end inside a UTF-8 sequence. Throws Error(data) if an id is not in the vocabulary.
  std::string decode(std::span<const int32_t> ids) const;
  /// Returns the text of `ids` after the text `before`. The result equals decode(ids) if `before` is empty. Otherwise,
  /// the result contains all bytes of `ids`: a prefix that decode() would remove, such as a space, is then text.
  std::string decode_after(std::string_view before, std::span<const int32_t> ids) const;
  /// Like decode(), but with the texts of special tokens.
  std::string decode_with_special(std::span<const int32_t> ids) const;
  virtual int32_t end_of_document() const { return vocab_size() - 2; }
  /// Returns the id with which the model's documents begin, or nullopt if the documents begin with their text.
  virtual std::optional<int32_t> beginning_of_document() const { return std::nullopt; }
  /// Returns the id of the mask token, which replaces tokens that a masked language model must predict; -1 if the
  /// vocabulary has no mask token.
  virtual int32_t mask() const { return vocab_size() - 1; }
  /// Returns the number of ids that have text. These ids are the numbers from 0 to text_ids() - 1. Call text_ids() only
  /// for tokenizers that have a mask token.
  int32_t text_ids() const { return vocab_size() - 2; }
  /// Returns the digest of contents(). Tokenizers with equal digests encode every text to the same ids. Datasets store
  /// the digest.
  Digest fingerprint() const { return contents().digest(); }
  /// Writes the tokenizer to `path`. Throws Error(resource) if this fails.
  void save(const std::string& path) const { write_tokenizer_file(path, contents()); }

 protected:
  /// Removes from a decoded text the prefix that encode() inserts before a text, such as a space.
  virtual void remove_prefix(std::string&) const {}
  /// Throws Error(data) if `id` is not in the vocabulary.
  void check_id(int32_t id) const;
};

/// Makes a tokenizer with one token for each byte value; it has 258 ids.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// Choices that tokenizers of other programs leave open. They do not apply to files that save() has written.
struct TokenizerChoice {
  std::string end_of_document = {};  // text of the token that ends documents; empty: the default of the model
  std::string pattern = {};          // .tiktoken files: name of the pattern; empty: chosen by the number of tokens
};

/// Reads a file that save() has written, or a tokenizer of another program. Supports tokenizer.json of Hugging Face,
/// .tiktoken, tekken.json, SentencePiece models, and a folder with one of these files. Throws Error(data) that names
/// the file and the problem. Throws Error(usage) if `choice` does not apply to the file.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path, const TokenizerChoice& choice = {});

/// Returns the number of bytes of each id. The bits per byte of a text are nats / ln 2 / (total bytes of the predicted
/// ids).
std::vector<int32_t> bytes_per_id(const Tokenizer& tokenizer);

}  // namespace hexad::data
