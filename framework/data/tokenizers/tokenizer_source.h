// A tokenizer file of another program, kept byte for byte inside the tokenizer file of a dataset.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "framework/data/tokenizer.h"

namespace hexad::data {

/// Largest tokenizer file of another program in bytes.
inline constexpr int64_t largest_source = int64_t{256} << 20;
/// Ids of vocabularies are below this number.
inline constexpr int64_t most_ids = int64_t{1} << 22;

/// A file to make a tokenizer from. If source.end_of_document is negative, the special ids are chosen: by `choice`, by
/// the configuration files beside `path`, or by the file itself.
struct TokenizerRequest {
  std::string path;  // for messages, and the place of configuration files
  TokenizerSource source;
  TokenizerChoice choice = {};
};

// Makers of the kinds, by TokenizerSource::kind. They throw Error(data) that names the file and the key.
std::unique_ptr<Tokenizer> make_hugging_face(TokenizerRequest request);    // huggingface
std::unique_ptr<Tokenizer> make_tiktoken(TokenizerRequest request);        // tiktoken
std::unique_ptr<Tokenizer> make_tekken(TokenizerRequest request);          // tekken
std::unique_ptr<Tokenizer> make_sentence_piece(TokenizerRequest request);  // sentencepiece

/// Makes the tokenizer of any kind.
std::unique_ptr<Tokenizer> make_from_source(TokenizerRequest request);

/// Returns the kind of a file of another program; empty if it is none that is known.
std::string kind_of_source(std::string_view bytes);

/// Returns the tokenizer file in `folder`. Throws Error(data) if there is none, or more than one and none has a usual
/// name.
std::string tokenizer_file_in(const std::string& folder);

}  // namespace hexad::data
