// Functions with which Trainer and StageTrainer start a training run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/data/training_data.h"
#include "framework/io/checkpoint_store.h"
#include "framework/telemetry/metrics.h"
#include "tools/train/model/training_state.h"
#include "tools/train/report/training_directory.h"

namespace hexad::train {

/// Sets the number of this process's kernel threads, and plants the file fault that HEXAD_FAULT requests, if any. Warns
/// about doubtful settings and about too many threads. Throws Error(usage) if offload.folder or HEXAD_FAULT cannot be
/// used. Collective.
void prepare_rank(const Recipe& recipe, const comm::World& world, const TrainingDirectory& directory);

/// Returns the options of the run's checkpoint store.
io::StoreOptions store_options(const Recipe& recipe, const comm::World& world, const TrainingDirectory& directory);

/// Logs this rank's coordinates in the recipe's layout. Warns if the placement of ranks on nodes, or parallel.order,
/// makes groups slow.
void note_layout(const Recipe& recipe, const comm::World& world, const TrainingDirectory& directory);

/// Opens the training data, ordered by data.shuffle, with a mixture whose weights apply from `mixture_start` on. Warns
/// about missing held-out data. Throws like open_data_on_ranks(). Collective.
data::TrainingData open_data(const Recipe& recipe, const Extensions& extensions, const comm::World& world,
                             const TrainingDirectory& directory, const data::MixtureStart& mixture_start);

/// Logs how much of each dataset the run uses up to the end of the stage. If several datasets are mixed, also prints
/// these lines to the terminal. `sequences` is the number of sequences up to the end of the stage.
void note_data_use(const data::TrainingData& data, int64_t sequences, const TrainingDirectory& directory);

/// Loads the weights and the progress of `checkpoint` into `state`. Without a checkpoint, loads the weights of
/// train.init_from or, if this key is empty, keeps the random initial weights. If the context has changed since the
/// checkpoint, the run continues at the same or a later token of the data (see continued_sequence()). Each stage
/// chooses the schedule of its MoE layers again. Returns the changes of the recipe since the checkpoint; none without a
/// checkpoint. Collective.
std::vector<std::string> load_start(std::optional<io::Checkpoint> checkpoint, const Recipe& recipe,
                                    const data::TrainingData& data, const comm::World& world,
                                    const TrainingDirectory& directory, TrainingState& state);

/// Writes recipe.yaml, and opens metrics.jsonl, tensorboard/ and the progress line. Only rank 0 calls it. Throws
/// Error(usage) and changes nothing if a newer job has started in the directory. Each later write to metrics.jsonl
/// and tensorboard/ repeats this check.
telemetry::MetricsHub open_sinks(const Recipe& recipe, const TrainingDirectory& directory);

}  // namespace hexad::train
