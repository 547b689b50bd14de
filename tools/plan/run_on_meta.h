// A rank's run on the meta device: model, tape, passes, pipeline, buckets and optimizer of `hexad train`, without
// allocating tensors and without other ranks.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "framework/device/meta/meta_run.h"
#include "optim/optimizer.h"
#include "parallel/comm/imagined_group.h"
#include "parallel/pp/repeated_passes.h"
#include "tools/plan/shared_by_runs.h"
#include "tools/train/model/repeated_layers.h"
#include "tools/train/model/train_step.h"

namespace hexad::plan {

/// Source of packed sequences, which are all equal. Each sequence has two documents, so that attention gets a document
/// boundary. All tokens are 0; on a meta device, nothing reads them.
class TwoDocuments final : public data::Source {
 public:
  explicit TwoDocuments(int64_t context) : context_(context) {}
  int64_t context() const override { return context_; }
  int64_t size() const override { return endless; }
  int64_t epoch(int64_t) const override { return 0; }
  bool has_equal_sequences() const override { return true; }
  void fill(int64_t first, const data::Row& row) const override;

 private:
  const int64_t context_;
};

/// Returns the number of micro-batches of a rank in a step of the recipe.
int64_t micro_batches_of(const train::Recipe& recipe, const mesh::Layout& layout);

/// Assumed number of ranks per node if the nodes of the ranks are unknown.
inline constexpr int usual_ranks_per_node = 8;

/// Returns simulated cards for `world` ranks if ranks of the recipe would communicate by NCCL, otherwise null. Several
/// ranks with device: cuda communicate by NCCL if distributed.device_collectives is not host. Nodes have
/// usual_ranks_per_node ranks each if `node_of_rank` is empty.
std::shared_ptr<const comm::ImaginedCards> imagined_cards(const train::Recipe& recipe, int world,
                                                          std::vector<int> node_of_rank = {});

/// Returns the rule by which imagined ranks of the recipe free the tensors that they send between stages. Host threads
/// hold such a tensor until the receiver posts the receive. NCCL holds no tensors.
pp::Freeing freeing_of(const train::Recipe& recipe, int world);

/// True if the first and the last stage of the recipe add up gradients of the embedding for each micro-batch.
bool reduces_on_two_stages(const train::Recipe& recipe);

/// Run of one rank, step by step. Each step may have any number of micro-batches.
class RunOnMeta {
 public:
  /// Contents of the log of a run:
  /// - nothing: there is no log
  /// - issues: all operations
  /// - parts: only the parts of a step that repeat_layers() repeats, without operations
  enum class Record : uint8_t { nothing, issues, parts };

  /// Makes the run. `node_of_rank` is as in ProcessGroup. All ranks are on one node if `node_of_rank` is empty, except
  /// for NCCL's connections (imagined_cards()). With Record::issues, issues() returns the recorded operations of the
  /// steps. Otherwise, with late peers, tensors are in memory as long as possible: imagined ranks are as late as the
  /// schedule allows. `shared` holds results of other runs; this run uses these results and adds its own. The run
  /// shares no results if `shared` is null.
  RunOnMeta(const train::Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout, int rank,
            const RoutingLoad& load, Record record = Record::nothing, const std::vector<int>& node_of_rank = {},
            std::shared_ptr<SharedByRuns> shared = nullptr, comm::ImaginedPeers peers = comm::ImaginedPeers::late);

  void step(int64_t micro_batches);
  /// Prepares a step that follows a step with another number of micro-batches. On a host that runs ahead, the previous
  /// step has loaded micro-batches for the next step, as many as its own. This function replaces these micro-batches by
  /// `micro_batches` micro-batches, so that the next step begins like a step that follows an equal step. Does nothing
  /// before the first step.
  void load_ahead(int64_t micro_batches);
  /// Returns the index of the latest step's first operation in the log; none before the first step, or without a log.
  std::optional<int32_t> begin_of_last_step() const { return begin_of_last_step_; }

  train::ModelInstance& instance() { return instance_; }
  const comm::ProcessGroup& world() const { return world_; }
  const device::IssueLog& issues() const { return *run_->issues(); }
  device::IssueLog& issues() { return *run_->issues(); }
  /// Labels each later recorded operation with the span that is open at that time.
  void follow_spans() { run_->issues()->follow(instance_.context.spans()); }
  /// Runs a step that records passes. Later steps repeat the recorded passes (pp::RepeatedPasses). The passes of the
  /// first micro-batch may run in each step if layers are repeated, too. Must be called before step(), after
  /// follow_spans(). Requires Record::issues and a recipe whose passes can be repeated (can_repeat_passes()). Later
  /// steps do not have the same memory as steps of the recipe. Throws pp::PassesDiffer if the step shows that a pass
  /// that was already repeated cannot be repeated. The run is then invalid.
  void repeat_passes();
  /// Makes later steps record equal layers and repeat them instead of running them (train::RepeatedLayers). Must be
  /// called before step() and before repeat_passes(). Requires Record::issues or Record::parts, and a recipe whose
  /// layers can be repeated (can_repeat_layers()). With Record::parts, steps have the same memory as steps of the
  /// recipe.
  void repeat_layers();
  /// True if the steps so far are invalid, because a layer that cannot be repeated was repeated
  /// (RepeatedLayers::failed()).
  bool failed() const { return layers_ && layers_->failed(); }
  /// Returns the number of forwards of layers that were repeated instead of run.
  int64_t repeated_layers() const { return layers_ ? layers_->repeated() : 0; }
  /// Returns the number of passes that were repeated instead of run.
  int64_t repeated_passes() const { return passes_ ? passes_->repeated() : 0; }

 private:
  pp::ParameterRecorder& parameter_recorder();
  void set_micro_batches(int64_t count) { recipe_.batch.global = count * sequences_; }

  train::Recipe recipe_;  // each step sets its batch.global
  const int64_t sequences_;
  const std::shared_ptr<SharedByRuns> shared_;
  const std::shared_ptr<device::MetaRun> run_;
  const comm::ImaginedGroup world_;
  const bool peers_are_late_;  // false with prompt peers, and if operations are recorded (memory is then ignored)
  std::optional<device::IssueLog::Pause> log_pause_;  // set with Record::parts
  // The recorders outlive the instance, because the instance's parameters and passes refer to the recorders.
  std::optional<pp::ParameterRecorder> recorder_;
  std::optional<train::RepeatedLayers> layers_;
  std::optional<pp::RepeatedPasses> passes_;
  train::ModelInstance instance_;
  optim::Optimizer optimizer_;
  train::TrainStep step_;
  const TwoDocuments source_;
  train::Progress progress_;
  std::optional<int32_t> begin_of_last_step_;
};

}  // namespace hexad::plan
