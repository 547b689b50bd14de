// Opens trained models on the ranks of a job, for `generate` and `eval`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/data/tokenizer.h"
#include "parallel/comm/world.h"
#include "tools/train/checkpoint/open_on_ranks.h"

namespace hexad::app {

struct TrainedRun {
  train::Recipe recipe;  // completed by complete()
  io::Checkpoint checkpoint;
  std::string layout;  // text for the user; empty on a single rank
};

/// Opens a run in a layout for the ranks of `world` (see open_on_ranks()). All ranks open the checkpoint that rank 0
/// finds. Reuses the MoE schedule that the run chose (take_chosen_schedule()). Sets the guards, traffic limits and
/// priorities of `world`, and the number of kernel threads. Rank 0 prints a reused schedule and, if there are several
/// ranks, the layout. Collective.
TrainedRun open_trained_run(const train::RunRequest& request, train::TrainedUse use,
                            const train::Extensions& extensions, comm::World& world);

/// Returns the tokenizer of the run's data. Throws Error(usage) if the model's tokens have no text, or if the
/// tokenizer's vocabulary is larger than the vocabulary of the model. Throws Error(data) if the tokenizer is missing or
/// cannot be read. `purpose` completes the message "..., so the run cannot PURPOSE".
std::unique_ptr<data::Tokenizer> tokenizer_of(const train::Recipe& recipe, const std::string& run,
                                              const std::string& purpose);

/// Returns the message about a dataset that was replaced after the run saved the checkpoint. The texts and the
/// tokenizer of such a dataset may differ from the texts and the tokenizer of the run. Returns an empty text if no
/// dataset was replaced, if `overrides` set keys of `data`, or if the checkpoint has no fingerprints of these datasets.
/// Ignores datasets whose training tokens are missing or damaged.
std::string replaced_data(const TrainedRun& run, const std::vector<std::string>& overrides);

/// Throws Error(data) if two ranks read different contents from the file `path`. If ranks cannot read the file, throws
/// the failure of the lowest of these ranks. All ranks throw the same error. Collective.
void require_same_file(const comm::World& world, const std::string& path);

/// Throws Error(usage) if the run's model is an encoder. If experts choose tokens, the message also names the router.
/// `purpose` completes the message "..., which does not PURPOSE".
void require_decoder(const train::Recipe& recipe, const std::string& run, const std::string& purpose);

}  // namespace hexad::app
