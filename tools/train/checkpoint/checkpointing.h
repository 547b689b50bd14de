// Saving and loading a training run through the checkpoint store.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "framework/data/training_data.h"
#include "framework/io/checkpoint_store.h"
#include "optim/optimizer.h"
#include "parallel/comm/world.h"
#include "tools/train/checkpoint/progress.h"
#include "tools/train/model/model_instance.h"

namespace hexad::train {

using base::FileWork;

class Checkpointer {
 public:
  /// `store_options.warn` reaches the user.
  Checkpointer(const Recipe& recipe, const comm::ProcessGroup& world, io::StoreOptions store_options);

  /// Collective. Writes checkpoints/step-N with one shard a rank; a tensor held by several ranks is written by the
  /// first. On any failure nothing is left behind and an Error is thrown on all ranks, carrying the first rank's
  /// reason: numeric, naming the tensor, when one is not finite; otherwise resource. Returns the bytes of the tensors
  /// that this rank wrote.
  int64_t save(const Progress& progress, ModelInstance& instance, const optim::Optimizer& optimizer) const;

  /// Collective. What checkpoint.resume asks for; nothing for a new run. Rank 0 looks (and warns), every rank checks
  /// its share of the files, all open the same.
  std::optional<io::Checkpoint> find() const;
  /// Removes what killed saves left (rank 0).
  void clean() const;
  /// Called on rank 0 before the first step after `step`. If checkpoint.resume asked to go back, later checkpoints
  /// belong to steps that are about to be repeated: see CheckpointStore::abandon_after(). Does nothing with `auto`:
  /// what is newer than the newest good one is damaged, and may be of use yet.
  std::vector<std::string> abandon_after(int64_t step) const;

  /// Weights, moments and states of any DP x EP layout into this one. Throws Error(usage) when the recipe's model
  /// differs from the checkpoint's, Error(numeric) naming the tensor when a weight is not finite.
  static Progress load(io::Checkpoint& checkpoint, const Recipe& recipe, ModelInstance& instance,
                       optim::Optimizer& optimizer);
  /// Main weights and states alone, rounded into the model: for evaluation and generation.
  static void load_weights(io::Checkpoint& checkpoint, ModelInstance& instance);
  /// Throws Error(usage) naming the parameter whose global shape differs from the one that is stored, Error(data) where
  /// a weight is not stored at all. Reads no weight.
  static void require_shapes(const io::Checkpoint& checkpoint, const ModelInstance& instance);
  /// Loads the weights into the model and the optimizer's main weights: for `train.init_from`.
  static void load_weights(io::Checkpoint& checkpoint, ModelInstance& instance, optim::Optimizer& optimizer);

 private:
  const Recipe& recipe_;
  const comm::ProcessGroup& world_;
  io::CheckpointStore store_;
};

/// Throws Error(usage) with each difference unless the recipe's model, seed and optimizer are those of the checkpoint's
/// run, so that the run can go on from it.
void require_same_model(const io::Checkpoint& checkpoint, const Recipe& recipe);

/// Collective. Every rank opens the checkpoint and checks every byte of its share of the shards; what one of them
/// finds wrong, all throw.
io::Checkpoint open_verified(const std::string& folder, const comm::ProcessGroup& world, const FileWork& work);

/// Order of the data in a run that goes on from this checkpoint: as it began, for in another order it would see some
/// tokens twice and others never. A checkpoint of an older program names no order and means `documents`. Throws
/// Error(usage) if the recipe asks for another order, Error(data) if the checkpoint names one that is not known.
data::Shuffle data_order(const io::Checkpoint& checkpoint, const Recipe& recipe);
/// Returns changes_of_recipe() since the checkpoint's run and, if it differs, "layout: BEFORE -> NOW".
std::vector<std::string> changes_since(const io::Checkpoint& checkpoint, const Recipe& recipe, int64_t world);

}  // namespace hexad::train
