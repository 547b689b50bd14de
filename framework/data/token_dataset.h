// Reader and writer of a dataset: token ids in one file, divided into documents.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/base/atomic_file.h"
#include "framework/base/file_work.h"
#include "framework/data/dataset_format.h"
#include "framework/data/file.h"

namespace hexad::data {

using base::AtomicFile;
using base::FileWork;

/// Writes a dataset document by document. The file appears when finish() returns.
class TokenDatasetWriter {
 public:
  /// Stores ids in 2 bytes if `vocab_size` is at most 65536, otherwise in 4. If `has_loss_mask`, every document needs a
  /// mask.
  TokenDatasetWriter(std::string path, int64_t vocab_size, Digest tokenizer, bool has_loss_mask = false);

  /// Appends a document. `text_bytes` is the size of its text. loss_mask[i] = 0 excludes token i from the training
  /// targets. Throws std::logic_error for an id outside the vocabulary or a mask of another length.
  void add_document(std::span<const int32_t> ids, int64_t text_bytes, std::span<const uint8_t> loss_mask = {});

  /// Writes header and offsets and moves the file to its final name. Returns its fingerprint. Throws Error(resource).
  Digest finish();

 private:
  AtomicFile file_;
  DatasetHeader header_;
  StreamingDigest contents_;
  std::vector<int64_t> offsets_{0};
  std::vector<uint8_t> loss_mask_;
};

/// Checks of the reader in addition to the header, the exact file size and the offsets.
enum class DatasetCheck : uint8_t {
  everything,  // reads the file once to check the digest of its contents and the range of all ids (about 1 s per 4 GB)
  structure,   // no further check; each id is checked when it is read
};

struct DatasetOpenOptions {
  DatasetCheck check = DatasetCheck::everything;
  std::optional<Digest> expected = std::nullopt;  // fingerprint stored in a checkpoint
  FileWork work = {};                             // records progress of reads while the file is opened
};

/// A dataset open for reading. Every length, offset and id is checked before it is used. Thread-safe.
class TokenDataset {
 public:
  /// Throws Error(data) naming `path` and the problem.
  explicit TokenDataset(std::string path, const DatasetOpenOptions& options = {});

  const std::string& path() const { return file_.path(); }
  int64_t tokens() const { return header_.tokens; }
  /// Number of documents, including empty ones, which are legal.
  int64_t documents() const { return header_.documents; }
  int64_t text_bytes() const { return header_.text_bytes; }
  int64_t vocab_size() const { return header_.vocab_size; }
  /// Bytes of an id in the file: 2 or 4.
  int bytes_per_id() const { return header_.bytes_per_id; }
  bool has_loss_mask() const { return header_.has_loss_mask != 0; }
  Digest tokenizer() const { return header_.tokenizer; }
  Digest fingerprint() const { return header_.header; }
  /// Returns documents() + 1 token offsets in ascending order: the first is 0, the last is tokens().
  std::span<const int64_t> offsets() const { return offsets_; }

  /// Fills `out` with the ids from token `first`. Throws Error(data) if the file shrank or an id is out of range.
  void read_ids(int64_t first, std::span<int32_t> out) const;
  /// Like read_ids(), for the loss mask (1 = may be a target). A dataset without a mask gives ones.
  void read_loss_mask(int64_t first, std::span<uint8_t> out) const;

 private:
  void read_header();
  void read_offsets();
  void check_contents(const FileWork& work) const;
  void check_id(int32_t id, int64_t token) const;

  ReadFile file_;
  DatasetHeader header_;
  std::vector<int64_t> offsets_;
};

}  // namespace hexad::data
