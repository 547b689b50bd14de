// Trained models that commands load onto the ranks of a job.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/data/tokenizer.h"
#include "parallel/comm/world.h"
#include "tools/train/checkpoint/open_on_ranks.h"

namespace hexad::app {

struct TrainedRun {
  train::Recipe recipe;  // complete
  io::Checkpoint checkpoint;
  std::string layout;  // text for the user; empty on a single rank
};

/// Opens a run in a layout of the world's ranks (see open_on_ranks()). All ranks open the checkpoint that rank 0 finds.
/// Sets the world's guards and priorities and the number of threads. On rank 0 of several ranks, prints the layout.
/// Collective.
TrainedRun open_trained_run(const train::RunRequest& request, train::TrainedUse use,
                            const train::Extensions& extensions, comm::World& world);

/// Returns the tokenizer of the run's data. Throws Error(usage) if the model's tokens have no text. `purpose` completes
/// "so it cannot ...".
std::unique_ptr<data::Tokenizer> tokenizer_of(const train::Recipe& recipe, const std::string& run,
                                              const std::string& purpose);

/// Throws the same Error(data) on all ranks unless they read the same contents from `path`. Collective.
void require_same_file(const comm::World& world, const std::string& path);

/// Throws Error(usage) unless the run's model is a decoder. `purpose` completes "which does not ...".
void require_decoder(const train::Recipe& recipe, const std::string& run, const std::string& purpose);

}  // namespace hexad::app
