// Reader of checkpoints. It reads any region of any tensor from a checkpoint of any parallel layout.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/file_work.h"
#include "framework/io/file_lock.h"
#include "framework/io/manifest.h"
#include "framework/io/safetensors.h"

namespace hexad::io {

/// The check that is made when a checkpoint is opened:
/// - quick: every file exists and has the right length. Damaged bytes are detected later, before they are used.
/// - full: every byte is correct.
enum class Check : uint8_t { quick, full };

/// One of `of` shares of a list of items: the items index, index + of, index + 2 * of, ...
struct Share {
  size_t index = 0, of = 1;
};

/// An open checkpoint. On a file system with locks, retention by processes of this machine does not remove the
/// checkpoint while this object exists. Not thread-safe: const functions also store the pages that they read.
class Checkpoint {
 public:
  /// Opens a checkpoint. Throws Error(data) if the folder is not a checkpoint, is being deleted, or does not pass
  /// `check`. Also throws Error(data) if the checkpoint refers to files outside the folder. Throws Error(resource) if
  /// the lock against removal cannot be taken. Progress of this and later reads is reported to `work`.
  static Checkpoint open(const std::string& folder, Check check, FileWork work = {});

  /// Opens a checkpoint with `text` as the contents of manifest.json. Another rank may have read `text`. A shard or
  /// page is checked only when it is verified or read. Throws Error(data) if the folder has no manifest or is being
  /// deleted, or if `text` is damaged or inconsistent.
  static Checkpoint open_read(const std::string& folder, std::string_view text, FileWork work = {});
  /// Returns the text of the checkpoint's manifest.json. Throws Error(data) if it cannot be read.
  static std::string read_manifest(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const RunState& run() const { return manifest_.run; }
  int64_t step() const { return manifest_.run.step; }
  int64_t sequence() const { return manifest_.sequence; }
  /// Returns all files except manifest.json: shards and pages.
  std::vector<ShardRecord> files() const;
  /// Returns the manifest with all tensors. Reads all pages that have not been read yet. Throws Error(data) if a page
  /// is missing or damaged.
  const Manifest& manifest() const;

  bool contains(std::string_view name, Kind kind) const { return find(name, kind) != nullptr; }
  /// Returns the record of a tensor. Throws Error(data) if the checkpoint does not contain it, or if the page with the
  /// record is missing or damaged.
  const TensorRecord& record(std::string_view name, Kind kind) const;

  /// Checks the digests of the pieces that overlap `region`, then reads `region` of the global tensor from these
  /// pieces. `device` must be the host. Throws Error(data):
  /// - if the checkpoint does not contain the tensor, or if the region is not inside the tensor. The error names the
  ///   tensor, and the file or folder.
  /// - if a piece is damaged, or if the pieces do not cover the region. The error names the tensor, and the file or
  ///   folder.
  /// - if a shard or page is missing or has the wrong length. The error names the file.
  Tensor read(std::string_view name, Kind kind, const Region& region, Device device,
              Category category = Category::parameter);
  /// Reads the whole tensor.
  Tensor read(std::string_view name, Kind kind, Device device, Category category = Category::parameter);

  /// Checks every byte of the shards and pages in `share`; by default, of all shards and pages. Pages that other calls
  /// have read are not read again. Throws Error(data) if a file is damaged. The error names the file, and also the
  /// tensor if bytes of a tensor are wrong.
  ///
  /// If there are more shares than shards:
  /// - Without pages, each shard is assigned to one or more shares, which divide its pieces. Header bytes on which no
  ///   reader depends are then not checked. Only the digest of the whole file covers these bytes.
  /// - With pages, shares whose index is at least the number of shards check only pages.
  void verify(Share share = {});
  /// Makes later reads skip the digests of pieces. Call this function once other ranks have verified all other shares.
  /// Each rank then reads only the bytes of its regions.
  void skip_digests() { shares_checked_ = true; }

 private:
  Checkpoint(std::string folder, FileLock lock, std::string_view text, FileWork work);
  const TensorRecord* find(std::string_view name, Kind kind) const;
  std::string shard_path(size_t shard) const { return folder_ + "/" + manifest_.shards[shard].file; }
  const std::vector<TensorRecord>& page(size_t index) const;
  std::vector<TensorRecord> read_page(size_t index) const;
  std::string holdings(size_t shard) const;
  void check_presence(size_t shard) const;
  void verify_shard(size_t shard);
  // Checks the header of a shard, and a part of its pieces. Divides the pieces into share.of parts of consecutive
  // pieces with about equal bytes, and checks part share.index. There must be no pages.
  void verify_pieces(size_t shard, Share share);
  const SafetensorsFile& open_shard(size_t shard);
  const SafetensorsFile& open_piece(const TensorRecord& tensor, const Piece& piece);

  std::string folder_;
  FileLock lock_;
  mutable Manifest manifest_;  // `tensors` of a manifest with pages is empty until manifest() is called
  // Tensors of the pages read so far. They are never moved, because record() returns references to them.
  mutable std::vector<std::optional<std::vector<TensorRecord>>> pages_;
  FileWork work_;
  std::map<size_t, SafetensorsFile> shards_;          // shards opened so far, by index
  bool shares_checked_ = false;                       // true after skip_digests()
  std::set<size_t> checked_shards_;                   // shards in which verify() found no damage
  std::set<std::pair<size_t, std::string>> checked_;  // (shard, stored name) of pieces with a correct digest
};

/// Throws Error(data) if `path` is not a regular file. A link is not a regular file. `about` follows the problem in the
/// message.
void require_regular_file(const std::string& path, std::string_view about = {});

}  // namespace hexad::io
