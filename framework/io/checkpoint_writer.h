// Saving a checkpoint: all of it or nothing, by many ranks that this code knows nothing of.
//
//   rank 0        CheckpointWriter w(store, step); w.create();
//   -- barrier --
//   every rank    std::string part = w.write_shard(rank, ranks, items);          throws? then tell the others
//   -- agree whether all succeeded; gather the parts on rank 0 --
//   rank 0        w.commit(state, parts)   or   w.discard()
#pragma once

#include <span>
#include <string>
#include <vector>

#include "framework/io/checkpoint_store.h"

namespace hexad::io {

/// A tensor that this rank writes. Where several ranks hold the same region, the caller picks one of them.
struct ShardItem {
  std::string name;
  Kind kind;
  Shape shape;    // of the global tensor
  Region region;  // what of it `tensor` is
  Tensor tensor;  // of shape region.size; may be strided
};

class CheckpointWriter {
 public:
  /// The store outlives the writer. `step` is the one saved.
  CheckpointWriter(const CheckpointStore& store, int64_t step);

  /// Makes step-N.tmp/, empty. Throws Error(resource).
  void create();
  /// Writes and fsyncs shard `index` of `count`; returns what commit() must know of it, as text. Throws
  /// Error(resource), such as for a full disk.
  std::string write_shard(int index, int count, std::span<const ShardItem> items) const;
  /// Makes the checkpoint exist: manifest, one rename, `latest`, retention. `state.step` must be the writer's. Parts in
  /// any order. Throws Error(resource) when the disk does not take it, std::logic_error when the parts do not make a
  /// whole (see merge_parts); then call discard(). Once the folder has its name, the checkpoint is there and nothing
  /// throws: a rename that the disk does not confirm, a hint that cannot be written or a folder that cannot be deleted
  /// is only warned about; after the first of these nothing older is deleted.
  void commit(const RunState& state, std::span<const std::string> parts) const;
  /// Removes what was written. Never throws; a folder that cannot be removed is warned about.
  void discard() const noexcept;

 private:
  void require_visible(const Manifest& manifest) const;
  void replace_folder() const;
  /// True if the new name of the folder is on disk; warns otherwise.
  bool survives_power_cut() const;
  FaultHook fault(std::string prefix) const;

  const CheckpointStore& store_;
  int64_t step_;
  std::string folder_, unfinished_, replaced_;
};

}  // namespace hexad::io
