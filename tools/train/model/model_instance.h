// A model on this rank, with all it needs to run.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/schedule/fibers.h"
#include "framework/schedule/graph_runner.h"
#include "layers/transformer.h"
#include "parallel/dp/weight_buckets.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

using autograd::ParameterSet;
using device::Device;
using layers::MicroBatch;
using layers::RoutingLog;
using layers::StateSet;
using layers::Transformer;

class PassRecorder;

/// Runs the passes of MoE layers; where they would wait, another micro-batch goes on, if one takes turns.
class PassesAsFibers final : public schedule::GraphRunner {
 public:
  explicit PassesAsFibers(schedule::Fibers& fibers) : fibers_(fibers) {}
  void run(const std::string& name, const schedule::TaskGraph& graph, device::DeviceContext& context) override;

  std::vector<PassRecorder*> recorders;  // told of each pass

 private:
  schedule::Fibers& fibers_;
};

/// Memory, mesh, parameters and layers of this rank, built from a recipe. Initial weights are drawn from the recipe's
/// seed.
struct ModelInstance {
  /// `say` (may be empty) is told by rank 0 how tensors of devices come to other ranks. With `meta` all is as on the
  /// recipe's device, but has no memory and no bound of it.
  ModelInstance(const Recipe& recipe, const Extensions& extensions, const comm::ProcessGroup& world,
                std::function<void(const std::string&)> say = {}, std::shared_ptr<device::MetaRun> meta = {});
  /// `runner` runs the passes of the MoE layers from now on; null: they run in turns, as at first.
  void run_passes_by(schedule::GraphRunner* runner);

  /// In all MoE layers, between steps; the same on all ranks.
  void reschedule(const moe::MoeSchedule& schedule);

  const Extensions extensions;
  const ScheduleConfig schedule_config;
  device::DeviceContext context;
  const std::unique_ptr<comm::ProcessGroup> cards;  // all ranks, from card to card; null: the world's groups do
  mesh::Mesh mesh;
  ParameterSet parameters;
  StateSet states;
  Transformer model;
  dp::BucketPlan buckets;
  dp::WeightBuckets weights;
  schedule::Fibers fibers;  // of the rank's thread
  PassesAsFibers passes{fibers};
  /// Routing in the passes of training and evaluation: see ForwardContext.
  RoutingLog* routing_to = nullptr;
  const RoutingLog* routing_from = nullptr;

  Device device() { return context; }
};

/// This rank's number among the ranks of its node.
int place_of(const comm::ProcessGroup& world);

/// Rank `rank` of `ranks` that share the sequences.
struct ContextRank {
  int ranks = 1, rank = 0;
};

/// Copies a rank's rows of a data::Batch into tensors. `valid_sequences` < batch.count marks the rest as padding: no
/// targets, no experts.
MicroBatch make_micro_batch(const data::Batch& batch, int64_t first_sequence, int64_t valid_sequences, Device device,
                            ContextRank context = {});

}  // namespace hexad::train
