// Text files in, a prepared dataset out: tokenizer.json, train.hxd, heldout.hxd and summary.json in one folder.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/documents.h"
#include "framework/data/input_files.h"

namespace hexad::data {

/// Names inside a prepared folder.
inline constexpr std::string_view tokenizer_file_name = "tokenizer.json";
inline constexpr std::string_view train_file_name = "train.hxd";
inline constexpr std::string_view heldout_file_name = "heldout.hxd";  // absent when nothing is held out
inline constexpr std::string_view summary_file_name = "summary.json";

struct PrepareOptions {
  std::vector<std::string> inputs;  // files and folders, see InputRules; what lies in `output` is passed over
  std::string output;               // a folder; made when missing
  std::string tokenizer = "bpe";    // "bytes", "bpe" (trained on the documents not held out), or a tokenizer file
  int32_t vocab_size = 4096;        // of a bpe tokenizer, special ids included
  DocumentSplit split;
  double heldout = 0.02;  // fraction of documents, chosen by a hash of their text: equal documents stay together
  std::string jsonl_key = "text";  // what holds the text in files of JSON objects, each of which is a document
  bool binary = false;             // files that are no UTF-8 text are taken, too
  bool force = false;              // replaces another dataset in `output`
  std::vector<std::string> include = {}, exclude = {};  // see InputRules
  bool follow_links = false;
};

struct PreparedPart {
  int64_t documents = 0;
  int64_t tokens = 0;      // an end-of-document a document included
  int64_t text_bytes = 0;  // of the documents
  std::string fingerprint;

  bool operator==(const PreparedPart&) const = default;
};

struct PrepareSummary {
  int64_t files = 0;
  int64_t empty_documents = 0;  // left out: nothing but white space
  int32_t vocab_size = 0;       // less than asked for when the text has too few repeated pairs
  std::string tokenizer;        // its fingerprint
  PreparedPart train, heldout;
  bool skipped = false;  // everything was there already, made from the same inputs and options
  InputFiles inputs;     // files taken, and files left out
  std::vector<std::string> warnings;

  double bytes_per_token() const;
};

struct PrepareProgress {
  std::string_view stage;  // "reading", "training the tokenizer", "encoding"
  int64_t done_bytes;
  int64_t total_bytes;
};

/// Throws Error(usage) for bad options or missing inputs, and, unless forced, when `output` holds a dataset that was
/// made from another text or with other options; Error(data) for unreadable or empty inputs, and naming file and byte
/// or line for what is no text, of all files at once; Error(resource) when the output cannot be written. What was in
/// `output` stays as it was until everything new is on disk; then the files take their places together. Needs memory
/// for the largest input file.
PrepareSummary prepare(
    const PrepareOptions& options,
    const std::function<void(const PrepareProgress&)>& progress = [](const PrepareProgress&) {});

}  // namespace hexad::data
