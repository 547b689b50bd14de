// Task graphs of a recipe's MoE layers, recorded from the program itself on the meta device.
#pragma once

#include <memory>
#include <vector>

#include "framework/schedule/task_graph.h"
#include "tools/plan/run_on_meta.h"

namespace hexad::plan {

/// One MoE layer of a recipe on one rank. Every expert gets the same number of rows (RoutingLoad::even), for any
/// model.moe.routing. No other rank runs.
class LayerOnMeta {
 public:
  /// Makes a model of one block. `layout` is the layout of the whole job and contains `rank`. `node_of_rank` is as in
  /// ProcessGroup. Requires a recipe with experts.
  LayerOnMeta(const train::Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout, int rank,
              const std::vector<int>& node_of_rank);

  /// Returns the graphs of a micro-batch in execution order: forward, backward and, under Parm's S1, the gathering of
  /// the gradients of shares. The tasks cannot be executed. Takes the time of a step on the meta device: milliseconds.
  std::vector<schedule::TaskGraph> graphs(const moe::MoeSchedule& schedule);

 private:
  RunOnMeta run_;
};

/// Graphs of all ranks. Ranks whose groups are placed on nodes in the same way form a class. Graphs of a class differ
/// only by chance, because every rank spreads its rows evenly over all experts. Therefore, one rank runs for its whole
/// class. Every rank of a job makes the same graphs without communication.
class LayerGraphs {
 public:
  /// Makes the classes. `node_of_rank` is as in ProcessGroup, for all ranks of the job.
  LayerGraphs(const train::Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout,
              const std::vector<int>& node_of_rank);

  /// Returns the class of each rank.
  const std::vector<size_t>& class_of_rank() const { return class_of_rank_; }
  /// Returns the graphs of each class (LayerOnMeta::graphs). A class whose pipeline stage has no MoE layer has no
  /// graphs.
  std::vector<std::vector<schedule::TaskGraph>> graphs(const moe::MoeSchedule& schedule);

 private:
  std::vector<size_t> class_of_rank_;
  std::vector<std::unique_ptr<LayerOnMeta>> layers_;  // by class; null: no MoE layer
};

}  // namespace hexad::plan
