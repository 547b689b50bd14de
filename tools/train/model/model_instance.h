// A model on this rank, with its device, mesh and communication.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "framework/schedule/fibers.h"
#include "framework/schedule/graph_runner.h"
#include "framework/schedule/layer_clock.h"
#include "layers/transformer.h"
#include "parallel/dp/weight_buckets.h"
#include "parallel/pp/checked_schedules.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::pp {
class ParameterRecorder;
class RepeatedPasses;
}  // namespace hexad::pp

namespace hexad::train {

using autograd::ParameterSet;
using device::Device;
using layers::MicroBatch;
using layers::RoutingLog;
using layers::StateSet;
using layers::Transformer;

class PassRecorder;
class RepeatedLayers;

/// Runs the passes of MoE layers as fibers. If micro-batches are interleaved, a pass that would wait yields to another
/// micro-batch. Also times the layers for the recorders.
class PassesAsFibers final : public schedule::GraphRunner, public schedule::LayerClock {
 public:
  explicit PassesAsFibers(schedule::Fibers& fibers) : fibers_(fibers) {}
  void run(const schedule::PassName& name, const schedule::TaskGraph& graph, device::DeviceContext& context) override;
  std::shared_ptr<schedule::PartTimer> start(const schedule::PassName& name, device::Stream& stream) override;

  std::vector<PassRecorder*> recorders;  // recorders that receive each pass

 private:
  schedule::Fibers& fibers_;
};

/// Returns the bytes of a unit (dp::BucketPlan::Options::unit_bytes): distributed.bucket_bytes. If this key is auto,
/// returns the size for layouts in which `ranks` ranks hold the same dense weights (dp::suitable_unit_bytes()).
int64_t unit_bytes(const Recipe& recipe, int ranks);

/// Memory, mesh, parameters and layers of this rank, made from a recipe. train.seed determines the initial weights.
struct ModelInstance {
  /// Makes the model. If several ranks compute on GPUs, `info` (may be empty) receives a line on rank 0. The line
  /// states the path of device tensors: from GPU to GPU, or through host memory. With `meta`, the model behaves as on
  /// the recipe's device, but allocates no memory and has no memory limit.
  ModelInstance(const Recipe& recipe, const Extensions& extensions, const comm::ProcessGroup& world,
                std::function<void(const std::string&)> info = {}, std::shared_ptr<device::MetaRun> meta = {});
  /// Sets the runner of all later passes of the MoE layers. Null restores the initial runner, which can interleave
  /// micro-batches.
  void run_passes_by(schedule::GraphRunner* runner);
  /// Sets the clock of all later parts of the MoE layers. Null restores the initial clock, which times the layers for
  /// the recorders.
  void time_layers_by(schedule::LayerClock* clock);

  /// Sets the schedule of all MoE layers. Call it between steps, with the same schedule on all ranks.
  void reschedule(const moe::MoeSchedule& schedule);

  const Extensions extensions;
  const ScheduleConfig schedule_config;
  device::DeviceContext context;
  // Group of all ranks for transfers from GPU to GPU; null: the world's groups are used.
  const std::unique_ptr<comm::ProcessGroup> cards;
  mesh::Mesh mesh;
  ParameterSet parameters;
  StateSet states;
  Transformer model;
  dp::BucketPlan buckets;
  dp::WeightBuckets weights;
  schedule::Fibers fibers;
  PassesAsFibers passes{fibers};
  /// Pipeline of training steps and evaluations: at first, pipeline_of() of the recipe. A prediction may replace it.
  pp::PipelineConfig pipeline;
  /// Schedules of training steps. Instances whose steps run on the same thread may share them.
  std::shared_ptr<pp::CheckedSchedules> schedules = std::make_shared<pp::CheckedSchedules>();
  /// Rule by which tensors sent between stages are freed. A run that counts memory with imagined peers sets
  /// Freeing::latest if host threads would send these tensors in the real run.
  pp::Freeing freeing = pp::Freeing::early;
  /// Logs to which routing is written, and from which routing is read; null: no log. See ForwardContext.
  RoutingLog* routing_to = nullptr;
  const RoutingLog* routing_from = nullptr;
  /// Passes of training steps that a meta device records and repeats; null: all passes are run. Recording needs
  /// `parameter_recorder`.
  pp::RepeatedPasses* repeated_passes = nullptr;
  pp::ParameterRecorder* parameter_recorder = nullptr;
  /// Blocks of training passes that a meta device records and repeats; null: all blocks are run. Needs
  /// `parameter_recorder`.
  RepeatedLayers* repeated_layers = nullptr;

  Device device() { return context; }
  /// Returns a line about the NCCL communicators and their memory; empty without NCCL communicators.
  std::string connection_text() const;
};

/// Returns this rank's index among the ranks that share the GPUs of its machine: the ranks of its node. If ranks are
/// threads of one process, returns the index among all ranks, because their nodes are only simulated.
int place_of(const comm::ProcessGroup& world);

/// Index `rank` of a rank in its cp group of `ranks` ranks, which share the sequences.
struct ContextRank {
  int ranks = 1, rank = 0;
};

/// Copies a rank's rows of a data::Batch into tensors. Sequences from `valid_sequences` on are padding. Padding has no
/// targets and is not routed to experts. MicroBatch::further has an entry for each of the `prediction_blocks` blocks.
/// Divides documents into chunks of `attention_chunk` tokens if `attention_chunk` is set.
MicroBatch make_micro_batch(const data::Batch& batch, int64_t first_sequence, int64_t valid_sequences, Device device,
                            ContextRank context = {}, int64_t prediction_blocks = 0,
                            std::optional<int64_t> attention_chunk = {});

}  // namespace hexad::train
