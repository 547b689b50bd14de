// Saves training runs to the checkpoint store, and loads them.
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
  /// Makes a checkpointer. `store_options.warn` receives warnings for the user.
  Checkpointer(const Recipe& recipe, const comm::ProcessGroup& world, io::StoreOptions store_options);

  /// Writes checkpoints/step-N with one shard per rank. If several ranks hold a tensor, the first of these ranks writes
  /// it. Returns the bytes of the tensors that this rank wrote. If ranks fail, no file is left behind and all ranks
  /// throw the error of the lowest failed rank: Error(numeric) with the tensor's name if a tensor is not finite,
  /// Error(usage) if a newer job has started in the run directory, otherwise Error(resource). Collective.
  int64_t save(const Progress& progress, ModelInstance& instance, const optim::Optimizer& optimizer) const;

  /// Returns the checkpoint that checkpoint.resume names; none for a new run. Rank 0 searches and gives the warnings.
  /// Every rank verifies its share of the files. All ranks open the same checkpoint. Collective.
  std::optional<io::Checkpoint> find() const;
  /// Returns the folder of the checkpoint of `step`.
  std::string folder(int64_t step) const { return store_.path(step); }
  /// Removes the files of killed saves, on rank 0.
  void clean() const;
  /// Moves the checkpoints after `step` aside if checkpoint.resume names a step, because the run will repeat their
  /// steps (CheckpointStore::abandon_after()). Does nothing if checkpoint.resume is auto: checkpoints newer than the
  /// newest good one are damaged, but may still be useful. Call it on rank 0 before the first step after `step`.
  std::vector<std::string> abandon_after(int64_t step) const;

  /// Loads weights, moments and states into this layout. They may have been saved under any other layout. The moments
  /// of parameters that the checkpoint's run had frozen (optim.freeze) remain zero. Throws Error(usage) if the recipe's
  /// model differs from the checkpoint's. Throws Error(numeric) with the tensor's name if a weight is not finite.
  static Progress load(io::Checkpoint& checkpoint, const Recipe& recipe, ModelInstance& instance,
                       optim::Optimizer& optimizer);
  /// Loads only main weights and states, rounded to the model's dtype. Used for evaluation and generation.
  static void load_weights(io::Checkpoint& checkpoint, ModelInstance& instance);

 private:
  const Recipe& recipe_;
  const comm::ProcessGroup& world_;
  io::CheckpointStore store_;
};

/// Throws Error(usage) with each difference if the recipe's model, seed or optimizer differs from that of the
/// checkpoint's run. Otherwise, a run of the recipe can continue from the checkpoint.
void require_same_model(const io::Checkpoint& checkpoint, const Recipe& recipe);

/// Opens the checkpoint on every rank. Each rank verifies every byte of its share of the shards. If ranks find errors,
/// all ranks throw the error of the lowest of these ranks. Collective.
io::Checkpoint open_verified(const std::string& folder, const comm::ProcessGroup& world, const FileWork& work);

/// Returns the order of the data in a run that continues from this checkpoint, which is the order of the checkpoint's
/// run. In another order, the run would see some tokens twice and miss others. A checkpoint of an older program names
/// no order, which means `documents`. Throws Error(usage) if the recipe sets another order. Throws Error(data) if the
/// order in the checkpoint is unknown.
data::Shuffle data_order(const io::Checkpoint& checkpoint, const Recipe& recipe);
/// Returns changes_of_recipe() since the checkpoint's run and, if it differs, "layout: BEFORE -> NOW".
std::vector<std::string> changes_since(const io::Checkpoint& checkpoint, const Recipe& recipe, int64_t world);

}  // namespace hexad::train
