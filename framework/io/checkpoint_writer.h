// Atomic saving of a checkpoint by many ranks. This code does not communicate. Callers must use it as follows:
//
//     rank 0        CheckpointWriter w(store, step); w.create();
//     -- barrier --
//     every rank    std::string part = w.write_shard(rank, ranks, items);          if it throws, tell the other ranks
//     -- agree whether all ranks succeeded; gather the parts on rank 0 --
//     rank 0        w.commit(state, parts)   or   w.discard()
#pragma once

#include <span>
#include <string>
#include <vector>

#include "framework/io/checkpoint_store.h"
#include "framework/io/tensor_source.h"

namespace hexad::io {

/// A tensor that this rank writes. The caller must choose the rank that writes the region if several ranks have the
/// same region.
struct ShardItem {
  std::string name;
  Kind kind;
  Shape shape;          // shape of the global tensor
  Region region;        // region of the global tensor that `tensor` contains
  TensorSource tensor;  // has shape region.size
};

class CheckpointWriter {
 public:
  /// Makes a writer for the checkpoint of step `step`. `store` must outlive the writer.
  CheckpointWriter(const CheckpointStore& store, int64_t step);

  /// Creates the empty folder CheckpointStore::unfinished_path(), in place of any folder that has this name. Throws
  /// Error(resource) if this fails. create() and write_shard() throw Error(usage) if a newer job has started in the run
  /// directory.
  void create();
  /// Writes and fsyncs shard `index` of `count`. Returns a description of the shard, as text for commit(). Throws
  /// Error(resource), for example if the disk is full.
  std::string write_shard(int index, int count, std::span<const ShardItem> items) const;
  /// Completes the checkpoint: writes the manifest with its pages, renames the folder, writes `latest` and applies
  /// retention.
  /// `state.step` must be the step of the writer. `parts` may be in any order.
  /// Throws Error(resource) if the manifest cannot be written, the folder cannot be renamed, or this process cannot
  /// find all shards in the folder. Throws std::logic_error if the parts are not a complete checkpoint (see
  /// merge_parts()). After these errors, call discard(). Throws Error(usage) if a newer job has started in the run
  /// directory (StoreOptions::generation); discard() then removes nothing.
  /// Once the folder has its final name, the checkpoint exists, and commit() does not throw. Later failures are only
  /// reported as warnings, for example if `latest` cannot be written or an old folder cannot be deleted. `latest` is
  /// not written, and no older checkpoint is deleted, if the rename cannot be confirmed on disk.
  void commit(const RunState& state, std::span<const std::string> parts) const;
  /// Removes the folder of the unfinished save. Moves an older checkpoint of the step back if commit() had moved this
  /// checkpoint aside. Warns if one of these operations fails. Only warns if a newer job has started in the run
  /// directory. Never throws.
  void discard() const noexcept;

 private:
  void require_visible(const Manifest& manifest) const;
  void replace_folder() const;
  /// Returns true if the folder's new name is on disk; otherwise warns and returns false.
  bool survives_power_cut() const;
  FaultHook fault(std::string prefix) const;

  const CheckpointStore& store_;
  int64_t step_;
  std::string folder_, unfinished_, replaced_;
};

}  // namespace hexad::io
