// A tokenizer file of another program. The tokenizer file of a dataset contains an exact copy of this file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "framework/data/tokenizer.h"

namespace hexad::data {

/// Maximum bytes of a tokenizer file of another program.
inline constexpr int64_t largest_source = int64_t{256} << 20;
/// Upper bound of the vocabulary size: all ids must be smaller.
inline constexpr int64_t max_ids = int64_t{1} << 22;

/// A file from which to make a tokenizer. choose_special_ids() sets the special ids if source.end_of_document is
/// negative.
struct TokenizerRequest {
  std::string path;  // path of the file, for messages; configuration files are in the same folder
  TokenizerSource source;
  TokenizerChoice choice = {};
};

// Each function makes a tokenizer of one TokenizerSource::kind. Throws Error(data) that names the file and the key if
// the file is damaged or not supported.
std::unique_ptr<Tokenizer> make_hugging_face(TokenizerRequest request);    // huggingface
std::unique_ptr<Tokenizer> make_tiktoken(TokenizerRequest request);        // tiktoken
std::unique_ptr<Tokenizer> make_tekken(TokenizerRequest request);          // tekken
std::unique_ptr<Tokenizer> make_sentence_piece(TokenizerRequest request);  // sentencepiece

/// Makes a tokenizer of any kind.
std::unique_ptr<Tokenizer> make_from_source(TokenizerRequest request);

/// Returns the TokenizerSource::kind of a file with these contents; empty if the kind is unknown.
std::string kind_of_source(std::string_view bytes);

/// Returns the path of the tokenizer file in `folder`. Throws Error(data) if there is none, or if there are several and
/// none has a usual name.
std::string tokenizer_file_in(const std::string& folder);

}  // namespace hexad::data
