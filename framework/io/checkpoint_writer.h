// Saving of a checkpoint, completely or not at all, by many ranks. This code does not communicate; its callers do:
//
//     rank 0        CheckpointWriter w(store, step); w.create();
//     -- barrier --
//     every rank    std::string part = w.write_shard(rank, ranks, items);          if it throws, tell the other ranks
//     -- agree whether all succeeded; gather the parts on rank 0 --
//     rank 0        w.commit(state, parts)   or   w.discard()
#pragma once

#include <span>
#include <string>
#include <vector>

#include "framework/io/checkpoint_store.h"

namespace hexad::io {

/// A tensor that this rank writes. If several ranks hold the same region, the caller chooses the rank that writes it.
struct ShardItem {
  std::string name;
  Kind kind;
  Shape shape;    // shape of the global tensor
  Region region;  // region of the global tensor that `tensor` holds
  Tensor tensor;  // has shape region.size; may be strided
};

class CheckpointWriter {
 public:
  /// The store must outlive the writer. `step` is the step to save.
  CheckpointWriter(const CheckpointStore& store, int64_t step);

  /// Creates step-N.tmp/, empty. Throws Error(resource).
  void create();
  /// Writes and fsyncs shard `index` of `count`. Returns its description for commit(), as text. Throws Error(resource),
  /// for example if the disk is full.
  std::string write_shard(int index, int count, std::span<const ShardItem> items) const;
  /// Completes the checkpoint: writes the manifest, renames the folder, writes `latest` and applies retention.
  /// `state.step` must be the writer's step. The parts may be in any order.
  /// Throws Error(resource) if the files cannot be written, and std::logic_error if the parts are not a complete
  /// checkpoint (see merge_parts()); then call discard().
  /// Once the folder has its name, the checkpoint exists and nothing throws. Three failures cause only warnings: a
  /// rename that is not confirmed on disk, a `latest` that cannot be written, a folder that cannot be deleted. After an
  /// unconfirmed rename, nothing older is deleted.
  void commit(const RunState& state, std::span<const std::string> parts) const;
  /// Removes the files written so far. Never throws; warns about a folder that cannot be removed.
  void discard() const noexcept;

 private:
  void require_visible(const Manifest& manifest) const;
  void replace_folder() const;
  /// Returns true if the new name of the folder is on disk; otherwise warns.
  bool survives_power_cut() const;
  FaultHook fault(std::string prefix) const;

  const CheckpointStore& store_;
  int64_t step_;
  std::string folder_, unfinished_, replaced_;
};

}  // namespace hexad::io
