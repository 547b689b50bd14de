// Encoded parts of a dataset that `hexad prepare` has not finished. After an interruption, the next run continues with
// the first document that is in none of them.
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

/// Name of the folder, in the output folder, that holds the shards until the dataset is finished.
inline constexpr std::string_view unfinished_folder_name = "unfinished";

/// Shards of a dataset, each with the tokens of consecutive documents, and a journal of those that are complete.
class UnfinishedDataset {
 public:
  /// Takes over the shards in `output`/unfinished if they belong to the same `request`; removes others. Shards are
  /// verified, and a damaged one and all after it are made again. Throws Error(usage) if another process prepares a
  /// dataset in `output`, and Error(resource) if the folder cannot be created.
  UnfinishedDataset(const std::string& output, Digest request);
  /// Keeps complete shards for the next run. Removes the folder if there are none or discard() was called.
  ~UnfinishedDataset();
  UnfinishedDataset(const UnfinishedDataset&) = delete;
  UnfinishedDataset& operator=(const UnfinishedDataset&) = delete;

  /// Returns the number of documents in complete shards. They are the first ones of the corpus.
  int64_t documents() const;
  /// Returns the path of the tokenizer that encodes the shards. The file exists if documents() > 0.
  std::string tokenizer_path() const;
  /// Returns the path of shard `number` of a part, for example of train.hxd.
  std::string shard_path(std::string_view part, size_t number) const;
  size_t shards() const { return shards_.size(); }
  /// Writes to the journal that shard shards() is complete: its files exist under their names. `parts` has the
  /// fingerprint of each of its files.
  void complete_shard(int64_t documents, std::vector<std::string> parts);
  /// Removes the folder when this object ends, because the dataset is finished.
  void discard() { finished_ = true; }

 private:
  struct Shard {
    int64_t documents = 0;
    std::vector<std::string> parts = {};
  };

  std::string in(const std::string& name) const;
  bool holds_folder() const;
  void lock();
  void load();
  bool is_sound(const Shard& shard, size_t number, Digest tokenizer) const;

  std::string folder_;
  Digest request_;
  std::vector<Shard> shards_;
  int lock_ = -1;  // file descriptor of the folder, on which this process holds a lock
  bool finished_ = false;
};

/// Removes the shards of `request` in `output`, whose dataset is finished. They are left over if a process was killed
/// after it had finished the dataset.
void remove_leftover_shards(const std::string& output, Digest request);

/// Writes the documents of a dataset to shards.
class ShardWriter {
 public:
  struct Options {
    bool held_out = true;  // false: there is no held-out part
    bool loss_mask = false;
    int64_t shard_bytes = int64_t{64} << 20;  // bytes of text after which a shard is complete
  };

  /// `tokenizer` must outlive this object.
  ShardWriter(UnfinishedDataset& unfinished, const Tokenizer& tokenizer, Options options);

  void add(const EncodedDocument& document);
  /// Completes the last shard.
  void finish();
  /// Writes the documents of all shards to the dataset at `path`. `part` is its file name. Returns its contents.
  PreparedPart join(std::string_view part, const std::string& path) const;

 private:
  void complete();

  UnfinishedDataset& unfinished_;
  const Tokenizer& tokenizer_;
  Options options_;
  std::optional<TokenDatasetWriter> train_, held_out_;  // the files of the current shard, if it has documents
  int64_t documents_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace hexad::data
