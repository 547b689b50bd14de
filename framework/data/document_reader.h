// Reader of the documents of one input file, which may have any form.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <variant>

#include "framework/data/byte_stream.h"
#include "framework/data/digest.h"
#include "framework/data/documents.h"
#include "framework/data/input_files.h"
#include "framework/data/jsonl.h"

namespace hexad::data {

struct ReadRules {
  DocumentSplit split;
  RecordRules records;
  bool binary = false;  // true: contents are bytes, not text
};

using TakeDocument = std::function<void(Document&& document)>;

/// Divides the contents of a file, which arrive in blocks, into documents.
class DocumentReader {
 public:
  /// Calls `take` with each document of `file`, including empty documents. The form of `file` must be set. If an object
  /// of a JSON file is not a valid document, calls `bad` and continues.
  DocumentReader(const InputFile& file, const ReadRules& rules, TakeDocument take, TakeProblem bad);

  void add(std::string_view block);
  void finish();

 private:
  std::variant<DocumentSplitter, RecordReader> reader_;
};

/// Reads all documents of a file. After each block, calls `progress` with the position in the file. Throws Error(data)
/// that names the file if it is damaged or if an object is not a valid document. Returns the digest of the contents. A
/// byte order mark is skipped unless rules.binary is true.
Digest read_documents(const InputFile& file, const ReadRules& rules, const TakeDocument& take,
                      const std::function<void(int64_t position)>& progress);

}  // namespace hexad::data
