// Reader of the documents of one input file, which may have any form.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
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
  // Maximum bytes of the documents of one part. Chat templates may write long texts for short conversations.
  int64_t max_part_bytes = 4 * largest_document;
};

/// A part of a file that is converted independently of the other parts: a document of a text, a line of JSON, or a
/// whole .json file.
struct FilePart {
  std::string bytes;
  int64_t number = 1;  // line number, from 1, if the part is a line of JSON; otherwise 1
};

using TakePart = std::function<void(FilePart&& part)>;
using TakeDocument = std::function<void(Document&& document)>;

/// Divides the contents of a file, which arrive in blocks, into parts.
class PartReader {
 public:
  /// Calls `take` with each part of `file`, including empty documents. The form of `file` must be set.
  PartReader(const InputFile& file, const DocumentSplit& split, const TakePart& take);

  /// add() and finish() throw Error(data) if a part is longer than largest_document.
  void add(std::string_view block);
  void finish();

 private:
  std::variant<DocumentSplitter, RecordSplitter> splitter_;
};

/// Calls `take` with each document of a part, including empty documents. Calls `bad` and continues if an object of JSON
/// is not a valid document, or if the documents exceed rules.max_part_bytes. Thread-safe.
void read_part(const InputFile& file, const ReadRules& rules, FilePart&& part, const TakeDocument& take,
               const TakeProblem& bad);

/// Reads a file and calls `take` with each part. After each block, calls `progress` with the position in the file.
/// Throws Error(data) that names the file if it is damaged. Returns the digest of the contents. A byte order mark is
/// skipped if rules.binary is false.
Digest read_parts(const InputFile& file, const ReadRules& rules, const TakePart& take,
                  const std::function<void(int64_t position)>& progress);

}  // namespace hexad::data
