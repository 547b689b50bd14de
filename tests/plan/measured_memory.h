// Peaks of memory of small training runs, as the allocator of each rank counts them.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "framework/device/memory.h"
#include "tests/training/training.h"

namespace hexad::tests {

/// Returns overrides for a large model, followed by `more`. The activations of the model's layers outweigh the small
/// tensors that estimates omit.
inline std::vector<std::string> measured(const std::vector<std::string>& more) {
  std::vector<std::string> all{"model.hidden=128",
                               "model.layers=4",
                               "model.context=64",
                               "model.vocab=151",
                               "model.moe.routing=balanced",
                               "model.moe.expert_hidden=96",
                               "model.mlp_hidden=96",
                               "batch.micro=4",
                               "batch.global=32",
                               "distributed.bucket_bytes=64KiB",
                               "distributed.device_collectives=host",  // connections_test.cpp tests connections
                               "train.precision=f32"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Time at which the other ranks take part in operations.
/// - prompt: The other ranks take part when their programs reach the operation. A rank frees the tensors of the
///   operation earlier if its peers are faster than the estimate assumes.
/// - late: The other ranks take part as late as the estimate assumes. They join a collective when this rank waits for
///   it. They join a message or a sum between two pipeline stages as late as the schedule allows.
enum class Peers : uint8_t { prompt, late };

/// Returns the largest peaks of five steps on every rank, after a first step that is not measured. In pipeline stages,
/// ranks cannot be late for each other at the same time. Therefore, a run measures only one rank if peers are late and
/// there are pipeline stages. `pause`: the time by which stages are late; must be longer than a step's longest
/// operation.
inline std::vector<device::MemoryStats> measured_peaks(
    const Recipe& recipe, int ranks, Peers peers, std::chrono::milliseconds pause = std::chrono::milliseconds(10)) {
  std::vector<device::MemoryStats> memory(ranks);
  const auto measure = [&](const comm::ThreadOptions& options) {
    const auto on_rank = [&](const comm::ProcessGroup& world) {
      verify::TrainingRun run(recipe, world);
      const verify::FixedSource source = verify::documents_of(run.recipe);
      run.step(source);
      run.instance.context.compute().synchronize();
      run.instance.context.allocator()->reset_peaks();
      for (int step = 0; step < 5; ++step) run.step(source);
      run.instance.context.compute().synchronize();
      if (options.stage_pause.ahead < 0 || options.stage_pause.ahead == world.rank())
        memory[world.rank()] = run.instance.context.allocator()->stats();
    };
    on_ranks(ranks, on_rank, options);
  };
  if (peers == Peers::prompt) {
    measure({});
  } else if (recipe.parallel.pp == 1) {
    measure({.patience = std::chrono::seconds(2)});
  } else {
    for (int rank = 0; rank < ranks; ++rank)
      measure({.patience = std::chrono::seconds(2), .stage_pause = {.length = pause, .ahead = rank}});
  }
  return memory;
}

}  // namespace hexad::tests
