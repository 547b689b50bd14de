// Saves training runs to the checkpoint store, and loads them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "framework/data/mixture_division.h"
#include "framework/data/training_data.h"
#include "framework/io/checkpoint_store.h"
#include "optim/optimizer.h"
#include "parallel/comm/world.h"
#include "tools/train/model/model_instance.h"
#include "tools/train/model/progress.h"

namespace hexad::train {

using base::FileWork;

class Checkpointer {
 public:
  /// Keeps references to `recipe` and `world`, which must outlive the checkpointer. `store_options.warn` receives
  /// warnings for the user.
  Checkpointer(const Recipe& recipe, const comm::ProcessGroup& world, io::StoreOptions store_options);

  /// Writes checkpoints/step-N with one shard per rank. If several ranks hold a tensor, the first of these ranks writes
  /// it. Returns the number of tensor bytes that this rank wrote. Collective. If any rank fails, no file is left behind
  /// and all ranks throw the error of the lowest failed rank:
  /// - Error(numeric) with the tensor's name if a tensor is not finite
  /// - Error(usage) if a newer job has started in the run directory, or if the file with the generation is missing
  /// - Error(data) if the file with the generation of the run is damaged
  /// - Error(resource) if memory or disk does not suffice, or if files cannot be written
  int64_t save(const Progress& progress, ModelInstance& instance, const optim::Optimizer& optimizer) const;

  /// Returns the checkpoint that checkpoint.resume selects; none for a new run. Rank 0 searches for it and issues the
  /// warnings. Every rank verifies its share of the files. All ranks open the same checkpoint, or throw the same Error
  /// (see CheckpointStore::find()). Collective.
  std::optional<io::Checkpoint> find() const;
  /// Returns the folder of the checkpoint of `step`.
  std::string folder(int64_t step) const { return store_.path(step); }
  /// Removes files that killed saves have left behind. Acts only on rank 0.
  void clean() const;
  /// Moves the checkpoints after `step` aside if checkpoint.resume is none or a step, because the run will repeat their
  /// steps. Returns their new paths (see CheckpointStore::abandon_after()). Does nothing if checkpoint.resume is auto:
  /// the run then continues from the newest good checkpoint. Newer checkpoints are damaged, but may still be useful.
  /// Called on rank 0 before the first step after `step`.
  std::vector<std::string> abandon_after(int64_t step) const;

  /// Loads weights, moments and states into this layout, and returns the progress. The checkpoint may have been saved
  /// under another layout. The moments of parameters that the checkpoint's run froze (optim.freeze) remain zero. Throws
  /// Error(usage) like require_same_model(), and Error(numeric) with the tensor's name if an element is not finite.
  /// Collective.
  static Progress load(io::Checkpoint& checkpoint, const Recipe& recipe, ModelInstance& instance,
                       optim::Optimizer& optimizer);
  /// Loads only main weights, rounded to the model's dtype, and the model's states. Used for evaluation and generation.
  /// Collective.
  static void load_weights(io::Checkpoint& checkpoint, ModelInstance& instance);

 private:
  const Recipe& recipe_;
  const comm::ProcessGroup& world_;
  io::CheckpointStore store_;
};

/// Throws Error(usage) that lists each difference if the recipe and the checkpoint's run differ in model, seed or
/// optimizer. A run of the recipe can continue from the checkpoint only if there is no difference.
void require_same_model(const io::Checkpoint& checkpoint, const Recipe& recipe);

/// Opens the checkpoint on every rank. Only rank 0 reads the manifest. Each rank verifies every byte of its share of
/// the other files, so later reads do not verify them again. If any rank finds an error, all ranks throw the error of
/// the lowest such rank. Collective.
io::Checkpoint open_verified(const std::string& folder, const comm::ProcessGroup& world, const FileWork& work);

/// Returns the order of the data (data.shuffle) of the checkpoint's run, which a continued run must keep. In another
/// order, the run would train on some tokens twice and skip others. If an older program wrote the checkpoint without an
/// order, the order is `documents`. Throws Error(usage) if the recipe sets another order. Throws Error(data) if the
/// order in the checkpoint is unknown.
data::Shuffle data_order(const io::Checkpoint& checkpoint, const Recipe& recipe);
/// Returns the point from which the weights of data.mixture apply in a run of `recipe` that continues from the
/// checkpoint. The point is counted in sequences of the recipe's context. If the shares of the datasets have changed
/// since the checkpoint, the new weights apply from the next sequence on. Each dataset then continues after the
/// sequences that were drawn from it. If the two runs mix different numbers of datasets, or fewer than two, returns a
/// default MixtureStart.
data::MixtureStart mixture_start(const io::Checkpoint& checkpoint, const Recipe& recipe);
/// Returns the changes since the checkpoint's run: the lines of changes_of_recipe() and, if the layout differs, the
/// line "layout: BEFORE -> NOW".
std::vector<std::string> changes_since(const io::Checkpoint& checkpoint, const Recipe& recipe, int64_t world);

}  // namespace hexad::train
