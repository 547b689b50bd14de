// Preparation of a dataset from text files: tokenizer.json, train.hxd, heldout.hxd and summary.json in one folder.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/documents.h"
#include "framework/data/input_files.h"

namespace hexad::data {

/// Names of files in a prepared folder.
inline constexpr std::string_view tokenizer_file_name = "tokenizer.json";
inline constexpr std::string_view train_file_name = "train.hxd";
inline constexpr std::string_view heldout_file_name = "heldout.hxd";  // absent if nothing is held out
inline constexpr std::string_view summary_file_name = "summary.json";

struct PrepareOptions {
  std::vector<std::string> inputs;  // files and folders, see InputRules; files in `output` are skipped
  std::string output;               // a folder; created if missing
  std::string tokenizer = "bpe";    // "bytes", "bpe" (trained on documents not held out), or a tokenizer file
  int32_t vocab_size = 4096;        // size of a bpe tokenizer, including special ids
  DocumentSplit split;
  double heldout = 0.02;           // fraction of documents, chosen by a hash of the text: equal documents stay together
  std::string jsonl_key = "text";  // key of the text in files of JSON objects; each object is a document
  bool binary = false;             // also takes files that are not UTF-8 text
  bool force = false;              // replaces a different dataset in `output`
  std::vector<std::string> include = {}, exclude = {};  // see InputRules
  bool follow_links = false;
};

struct PreparedPart {
  int64_t documents = 0;
  int64_t tokens = 0;      // includes one end-of-document per document
  int64_t text_bytes = 0;  // bytes of the documents' text
  std::string fingerprint;

  bool operator==(const PreparedPart&) const = default;
};

struct PrepareSummary {
  int64_t files = 0;            // files with text
  int64_t empty_documents = 0;  // documents of white space only, which are left out
  int32_t vocab_size = 0;       // less than requested if the text has too few repeated pairs
  std::string tokenizer;        // fingerprint of the tokenizer
  PreparedPart train, heldout;
  bool skipped = false;  // true if all files were already there, made from the same inputs and options
  InputFiles inputs;     // files taken and files left out
  std::vector<std::string> warnings;

  double bytes_per_token() const;
};

struct PrepareProgress {
  std::string_view stage;  // "reading", "training the tokenizer", "encoding"
  int64_t done_bytes;
  int64_t total_bytes;
};

/// Prepares a dataset. Files in `output` stay unchanged until all new files are on disk; then the new files replace
/// them together. Needs memory for the largest input file.
/// Throws Error(usage): bad options, missing inputs, or, unless forced, a dataset in `output` that was made from other
/// text or with other options.
/// Throws Error(data): unreadable or empty inputs, or inputs that are not text, with file and byte or line, for all
/// files together.
/// Throws Error(resource): the output cannot be written.
PrepareSummary prepare(
    const PrepareOptions& options,
    const std::function<void(const PrepareProgress&)>& progress = [](const PrepareProgress&) {});

}  // namespace hexad::data
