// Preparation of a dataset from text files: tokenizer.json, train.hxd, heldout.hxd and summary.json in a folder.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/documents.h"
#include "framework/data/input_files.h"
#include "framework/data/tokenizer.h"

namespace hexad::data {

/// Names of the files in a prepared folder.
inline constexpr std::string_view tokenizer_file_name = "tokenizer.json";
inline constexpr std::string_view train_file_name = "train.hxd";
inline constexpr std::string_view heldout_file_name = "heldout.hxd";  // missing if nothing is held out
inline constexpr std::string_view summary_file_name = "summary.json";

struct PrepareOptions {
  std::vector<std::string> inputs;  // files and folders (see InputRules); files in `output` are skipped
  std::string output;               // folder; created if it does not exist
  std::string tokenizer = "bpe";    // "bytes", "bpe" (trained on the documents that are not held out), or the path of a
                                    // tokenizer for load_tokenizer()
  TokenizerChoice choice = {};      // for a tokenizer of another program
  int32_t vocab_size = 4096;        // number of ids of a bpe tokenizer, including the special ids
  DocumentSplit split;
  double heldout = 0.02;          // fraction of documents; they are selected by a hash of their text, so equal
                                  // documents are in the same part
  std::string text_key = "text";  // key of the text in JSON objects, each of which is a document; see RecordRules
  bool text_key_given = false;    // true if the user has named text_key; see RecordRules
  std::string chat_form = {};     // form of conversations (see conversation_form(), with `tokenizer` as its folder). If
                                  // it is not empty, JSON objects are conversations, and the dataset has a loss mask,
                                  // so that only answers are learned
  bool binary = false;            // true: files that are not UTF-8 text are also taken
  bool force = false;             // true: a different dataset in `output` is replaced, even if it is unfinished
  std::vector<std::string> include = {}, exclude = {};  // see InputRules
  bool follow_links = false;
  int workers = 1;  // threads that parse, train and encode; the result does not depend on their number
  int64_t shard_bytes = int64_t{64} << 20;  // bytes of text per shard; a resumed run skips complete shards
};

struct PreparedPart {
  int64_t documents = 0;
  int64_t tokens = 0;      // number of tokens, including one end-of-document per document, and one
                           // beginning-of-document per document if the tokenizer has this token
  int64_t text_bytes = 0;  // bytes of the text of the documents
  std::string fingerprint;

  bool operator==(const PreparedPart&) const = default;
};

struct PrepareSummary {
  int64_t files = 0;            // number of files with text
  int64_t empty_documents = 0;  // number of documents with only white space; they are skipped
  int32_t vocab_size = 0;  // vocabulary of the tokenizer; for "bpe", smaller than requested if too few pairs of the
                           // text occur more than once
  std::string tokenizer;   // fingerprint of the tokenizer
  PreparedPart train, heldout;
  int64_t resumed_documents = 0;  // number of documents that an interrupted run had encoded
  bool skipped = false;           // true if all files existed already, made from the same inputs with the same options
  InputFiles inputs;              // the files that were taken, and the files that were skipped
  std::vector<std::string> warnings;

  double bytes_per_token() const;
};

struct PrepareProgress {
  std::string_view stage;  // "reading", "training the tokenizer" or "encoding"
  int64_t done_bytes;      // bytes read so far, as on disk: compressed bytes if a file is compressed
  int64_t total_bytes;
  int64_t documents = 0;        // number of documents read in this stage
  int64_t total_documents = 0;  // 0 while the number is unknown
};

/// Prepares a dataset. Existing files in `output` do not change until all new files are on disk; then the new files
/// replace them together. Files are read in blocks; memory must suffice for a few documents per worker, and for 256 MiB
/// of JSON that is being parsed. After an interruption, the complete shards of encoded documents are taken from
/// `output`/unfinished. The result equals the result of an uninterrupted run.
///
/// Throws Error(usage) in these cases:
/// - Options are wrong, or inputs are missing.
/// - Another process is preparing a dataset in `output`.
/// - `output` has old files that an interrupted replacement has moved (see StagedFiles).
/// - options.force is false, and `output` has a dataset from different text or options. This includes the documents of
///   an interrupted run.
///
/// Throws Error(data) if inputs are unreadable, empty or not text. The message lists the problems of all files, with
/// the byte or line if it is known. Throws Error(resource) if the output cannot be written.
PrepareSummary prepare(
    const PrepareOptions& options,
    const std::function<void(const PrepareProgress&)>& progress = [](const PrepareProgress&) {});

}  // namespace hexad::data
