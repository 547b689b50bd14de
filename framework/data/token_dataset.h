// Reader and writer of a dataset: token ids in one file, divided into documents.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/base/atomic_file.h"
#include "framework/base/file_work.h"
#include "framework/data/dataset_format.h"
#include "framework/data/file.h"
#include "framework/data/megatron_index.h"

namespace hexad::data {

using base::AtomicFile;
using base::FileWork;

/// Writes a dataset document by document. The file exists under its name only after finish().
class TokenDatasetWriter {
 public:
  /// Creates the file. Ids are stored in 2 bytes if `vocab_size` is at most 65536, otherwise in 4 bytes. Every document
  /// must have a mask if `has_loss_mask` is true.
  TokenDatasetWriter(std::string path, int64_t vocab_size, Digest tokenizer, bool has_loss_mask = false);

  /// Appends a document. `text_bytes` is the size of the document's text. Token i is not a training target if
  /// loss_mask[i] is 0. Throws std::logic_error if an id is outside the vocabulary or the mask has another length.
  void add_document(std::span<const int32_t> ids, int64_t text_bytes, std::span<const uint8_t> loss_mask = {});

  /// Writes the header and the offsets, and moves the file to its final name. Returns the fingerprint of the file.
  /// Throws Error(resource) if the file cannot be written.
  Digest finish();

 private:
  AtomicFile file_;
  DatasetHeader header_;
  StreamingDigest contents_;
  std::vector<int64_t> offsets_{0};
  std::vector<bool> loss_mask_;  // a bit per token, because the file has the mask after all ids
};

/// The checks of a dataset in addition to those of the header, the exact file size and the offsets.
enum class DatasetCheck : uint8_t {
  /// Reads the whole file once (about 1 s per 4 GB). Checks the range of all ids. Also checks the digest of the
  /// contents if the dataset is not from Megatron-LM.
  everything,
  structure,  // no further check; each id is checked when it is read
};

struct DatasetOpenOptions {
  DatasetCheck check = DatasetCheck::everything;
  std::optional<Digest> expected = std::nullopt;  // fingerprint that is stored in a checkpoint
  FileWork work = {};                             // receives the progress of reads while the file is opened
  /// Vocabulary size of a Megatron-LM dataset, which does not record this size. All ids must be smaller. This member
  /// has no effect on other datasets.
  int64_t vocab_size = INT32_MAX;
};

/// A dataset that is open for reading. Every length, offset and id is checked before it is used. Thread-safe.
class TokenDataset {
 public:
  /// Opens a dataset: a file of `hexad prepare`, or an index NAME.idx of Megatron-LM. The ids of an index are read in
  /// place from NAME.bin. Throws Error(data) that names the file and the problem if a check fails, or if the
  /// fingerprint differs from options.expected.
  explicit TokenDataset(std::string path, const DatasetOpenOptions& options = {});

  /// Returns the path of the file with the ids.
  const std::string& path() const { return file_.path(); }
  int64_t tokens() const { return header_.tokens; }
  /// Returns the number of documents, including empty documents, which are legal.
  int64_t documents() const { return header_.documents; }
  /// Returns the number of bytes of the text; 0 for a dataset of Megatron-LM, which does not record this number.
  int64_t text_bytes() const { return header_.text_bytes; }
  int64_t vocab_size() const { return header_.vocab_size; }
  /// Returns the stored form of the ids.
  IdFormat id_format() const { return ids_; }
  bool has_loss_mask() const { return header_.has_loss_mask != 0; }
  /// True if the dataset records its tokenizer.
  bool has_tokenizer() const { return ids_begin_ > 0; }
  Digest tokenizer() const { return header_.tokenizer; }
  Digest fingerprint() const { return header_.header; }
  /// Returns documents() + 1 token offsets in ascending order. The first is 0, and the last is tokens().
  std::span<const int64_t> offsets() const { return offsets_; }

  /// Fills `out` with the ids from token `first` on. Throws Error(data) if the file has become shorter or an id is out
  /// of range.
  void read_ids(int64_t first, std::span<int32_t> out) const;
  /// Like read_ids(), for the loss mask (1: the token may be a target). All values are 1 if the dataset has no mask.
  void read_loss_mask(int64_t first, std::span<uint8_t> out) const;

 private:
  TokenDataset(const std::string& path, std::unique_ptr<MegatronIndex> index, const DatasetOpenOptions& options);

  void read_header();
  void read_offsets();
  void take_index(MegatronIndex index, int64_t vocab_size);
  void check_contents(const FileWork& work) const;
  void check_id(int64_t id, int64_t token) const;

  ReadFile file_;
  DatasetHeader header_;
  IdFormat ids_;
  int64_t ids_begin_ = 0;  // position of the first id in the file; 0 only in a dataset of Megatron-LM
  std::vector<int64_t> offsets_;
};

}  // namespace hexad::data
