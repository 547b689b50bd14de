// A model on this rank, with its device, mesh and communication.
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

/// Runs the passes of MoE layers as fibers. If micro-batches are interleaved, another micro-batch continues when a pass
/// would wait.
class PassesAsFibers final : public schedule::GraphRunner {
 public:
  explicit PassesAsFibers(schedule::Fibers& fibers) : fibers_(fibers) {}
  void run(const std::string& name, const schedule::TaskGraph& graph, device::DeviceContext& context) override;

  std::vector<PassRecorder*> recorders;  // recorders that receive each pass

 private:
  schedule::Fibers& fibers_;
};

/// Memory, mesh, parameters and layers of this rank, made from a recipe. Initial weights are drawn from the recipe's
/// seed.
struct ModelInstance {
  /// Makes the model. On rank 0, `say` (may be empty) receives a line with the path that device tensors take between
  /// ranks. With `meta`, the model behaves as on the recipe's device, but has no memory and no memory limit.
  ModelInstance(const Recipe& recipe, const Extensions& extensions, const comm::ProcessGroup& world,
                std::function<void(const std::string&)> say = {}, std::shared_ptr<device::MetaRun> meta = {});
  /// Makes `runner` run all later passes of the MoE layers. Null restores the initial state, in which micro-batches may
  /// be interleaved.
  void run_passes_by(schedule::GraphRunner* runner);

  /// Sets the schedule of all MoE layers. Call it between steps, with the same schedule on all ranks.
  void reschedule(const moe::MoeSchedule& schedule);

  const Extensions extensions;
  const ScheduleConfig schedule_config;
  device::DeviceContext context;
  // Group of all ranks that sends from GPU to GPU; null: the world's groups are used.
  const std::unique_ptr<comm::ProcessGroup> cards;
  mesh::Mesh mesh;
  ParameterSet parameters;
  StateSet states;
  Transformer model;
  dp::BucketPlan buckets;
  dp::WeightBuckets weights;
  schedule::Fibers fibers;  // fibers of the rank's thread
  PassesAsFibers passes{fibers};
  /// Log of the routing in training and evaluation; null: no log. See ForwardContext.
  RoutingLog* routing_to = nullptr;
  const RoutingLog* routing_from = nullptr;

  Device device() { return context; }
  /// Returns a line about the communicators of NCCL and the memory that they take; empty if there are none.
  std::string connection_text() const;
};

/// Returns this rank's index among the ranks of its node.
int place_of(const comm::ProcessGroup& world);

/// Index of a rank among the `ranks` ranks that share the sequences.
struct ContextRank {
  int ranks = 1, rank = 0;
};

/// Copies a rank's rows of a data::Batch into tensors. Sequences from `valid_sequences` on are padding, which has no
/// targets and visits no experts. The tensors have the further tokens of `prediction_blocks` prediction blocks.
MicroBatch make_micro_batch(const data::Batch& batch, int64_t first_sequence, int64_t valid_sequences, Device device,
                            ContextRank context = {}, int64_t prediction_blocks = 0);

}  // namespace hexad::train
