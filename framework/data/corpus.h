// The text of `hexad prepare`: all documents of all input files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/digest.h"
#include "framework/data/document_reader.h"
#include "framework/data/prepare.h"
#include "framework/data/workers.h"

namespace hexad::data {

/// Rule that selects held-out documents: a document is held out if its hash is below `threshold`. The threshold is the
/// requested fraction of the range of hashes. In a small corpus, one of the two parts could be empty although the
/// fraction is not 0. To prevent this, the threshold is changed by as little as necessary.
struct HeldOutRule {
  uint64_t threshold = 0;

  bool operator()(std::string_view document) const { return digest_of(document).low < threshold; }
};

/// Result of reading all text once.
struct CorpusScan {
  Digest inputs;  // digest of the contents of all files and, if any of them is JSON, of the text key
  int64_t documents = 0;
  int64_t empty_documents = 0;
  HeldOutRule held_out;
  std::vector<std::string> unnamed_json;  // files that are probably JSON lines but whose name has another ending
  // Files named .json that contain a list of objects with strings. They are read as text, because no object has the
  // text key.
  std::vector<std::string> untaken_json;
  std::string untaken_keys;               // keys of the first of untaken_json; see keys_of_untaken_json()
  std::vector<std::string> damaged_json;  // files named .json that look like JSON with the text key, but are not JSON
};

class Corpus {
 public:
  using Progress = std::function<void(const PrepareProgress&)>;

  /// Selects the files. The threads of `workers`, which must outlive this object, later convert the parts of the files
  /// to documents. Throws like find_inputs() and conversation_form().
  Corpus(const PrepareOptions& options, Workers& workers, Progress progress);

  const InputFiles& inputs() const { return inputs_; }
  /// Reads all files, checks them, and sets the form of each file. Must be called first. Throws a single Error(data)
  /// with the problems of all files. Also throws Error(data) if no document has text, or if a part is to be held out
  /// but all documents are equal.
  CorpusScan scan();
  /// For each document that is not empty, calls `work` on any thread, then `take` on the caller's thread. The calls of
  /// `take` are in the order of the documents. `work` may change the document. Throws Error(data) if a file has changed
  /// since scan(), because the dataset would not match the scanned text.
  void for_each_document(std::string_view stage, const std::function<void(Document& document)>& work,
                         const TakeDocument& take);

 private:
  void report(std::string_view stage, int64_t done_bytes);

  const PrepareOptions& options_;
  Workers& workers_;
  ReadRules rules_;
  Progress progress_;
  InputFiles inputs_;
  std::vector<Digest> contents_;  // digests that scan() has computed from the contents of the files
  int64_t total_bytes_ = 0;
  int64_t documents_ = 0;        // number of documents read in this stage
  int64_t total_documents_ = 0;  // 0 until the documents have been counted
};

}  // namespace hexad::data
