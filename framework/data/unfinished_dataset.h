// Encoded parts (shards) of a dataset that `hexad prepare` has not finished. After an interruption, the next run
// continues with the first document that is in no shard.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/encoding.h"
#include "framework/data/prepare.h"
#include "framework/data/token_dataset.h"

namespace hexad::data {

/// Name of the subfolder of the output folder that contains the shards until the dataset is finished.
inline constexpr std::string_view unfinished_folder_name = "unfinished";

/// Shards of a dataset, each with the tokens of consecutive documents, and a journal of the complete shards.
class UnfinishedDataset {
 public:
  /// Creates `options.output` if it does not exist. Uses the shards in the subfolder `unfinished` if they belong to
  /// `request`, the request_digest() of the options. Verifies the shards. A damaged shard and all later shards will be
  /// made again (see damage()). Throws:
  /// - Error(usage) if another process is preparing a dataset in the folder, or if the name of the folder is invalid.
  /// - Error(usage) if there are complete shards of another request and options.force is false. With options.force,
  ///   these shards are removed.
  /// - ReadError if an existing file cannot be read and options.force is false.
  /// - Error(resource) if the folder cannot be created, or if the file `lock` cannot be opened.
  /// - Error(resource) if the file system has locks but cannot lock this file.
  /// A file system without locks excludes no other process.
  UnfinishedDataset(const PrepareOptions& options, Digest request);
  /// Keeps complete shards for the next run. Removes the files of the preparation if there are no complete shards, or
  /// if discard() was called. Then removes the subfolder `unfinished` if it is empty. Also removes `output` if it is
  /// empty and this object created it.
  ~UnfinishedDataset();
  UnfinishedDataset(const UnfinishedDataset&) = delete;
  UnfinishedDataset& operator=(const UnfinishedDataset&) = delete;

  /// Returns the number of documents in complete shards. These are the first documents of the corpus.
  int64_t documents() const;
  /// Returns the path of the tokenizer that encodes the shards. The file exists if documents() > 0.
  std::string tokenizer_path() const;
  /// Returns the path of shard `number` of a part, for example of train.hxd.
  std::string shard_path(std::string_view part, size_t number) const;
  size_t shards() const { return shards_.size(); }
  /// Returns a warning that names the first damaged file of an interrupted run; empty if there was none.
  const std::string& damage() const { return damage_; }
  /// Records in the journal that the next shard is complete. The number of this shard is the present value of shards().
  /// All files of the shard must exist under their names. `parts` contains the fingerprint of each file.
  void complete_shard(int64_t documents, std::vector<std::string> parts);
  /// Makes the destructor remove the shards and the folder. Call discard() when the dataset is finished, or if the
  /// shards may not match the input files.
  void discard() { finished_ = true; }

 private:
  struct Shard {
    int64_t documents = 0;
    std::vector<std::string> parts = {};
  };

  std::string in(const std::string& name) const;
  bool holds_lock() const;
  void lock();
  /// Removes the lock file, and unlocks it.
  void unlock();
  void load(const PrepareOptions& options);
  /// Throws Error(data) if the files of the shard differ from the journal's record of the shard.
  void require_sound(const Shard& shard, size_t number, Digest tokenizer) const;

  std::string output_, folder_;
  bool made_output_ = false;  // true if this object created output_, so the destructor may remove output_
  Digest request_;
  std::string settings_;  // settings_json() of the request
  std::string damage_;
  std::vector<Shard> shards_;
  int lock_ = -1;  // file descriptor of the file `lock` in the folder, on which this process holds a lock
  bool finished_ = false;
};

/// Removes the shards of `request` in `output`. The dataset must be finished. Shards are left over if a process was
/// killed between finishing the dataset and removing the shards.
void remove_leftover_shards(const std::string& output, Digest request);

/// Writes the documents of a dataset to shards.
class ShardWriter {
 public:
  struct Options {
    bool held_out = true;  // true if the dataset has a held-out part
    bool loss_mask = false;
    int64_t shard_bytes = int64_t{64} << 20;  // bytes of text after which a shard is complete
  };

  /// Writes shards to `unfinished`. `tokenizer` must outlive this object.
  ShardWriter(UnfinishedDataset& unfinished, const Tokenizer& tokenizer, Options options);

  void add(const EncodedDocument& document);
  /// Completes the last shard.
  void finish();
  /// Writes the documents of all shards to the dataset at `path`. `part` is the file name of the part, such as
  /// train.hxd. Returns the numbers of documents, tokens and bytes, and the fingerprint.
  PreparedPart join(std::string_view part, const std::string& path) const;

 private:
  void complete();

  UnfinishedDataset& unfinished_;
  const Tokenizer& tokenizer_;
  Options options_;
  std::optional<TokenDatasetWriter> train_, held_out_;  // files of the current shard; both are empty if the shard has
                                                        // no documents; held_out_ is also empty if !options_.held_out
  int64_t documents_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace hexad::data
