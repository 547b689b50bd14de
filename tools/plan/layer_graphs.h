// Task graphs of a recipe's MoE layers, recorded from the program itself on the meta device.
#pragma once

#include <memory>
#include <vector>

#include "framework/schedule/task_graph.h"
#include "tools/plan/run_on_meta.h"

namespace hexad::plan {

/// One MoE layer of a recipe on one rank. Every expert gets the same number of rows (RoutingLoad::even), whatever
/// model.moe.routing is. The other ranks are imagined.
class LayerOnMeta {
 public:
  /// Makes a model of one block. `layout` is that of the whole job, and `rank` is in it. node_of_rank: as in
  /// ProcessGroup. The recipe has experts.
  LayerOnMeta(const train::Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout, int rank,
              const std::vector<int>& node_of_rank);

  /// Returns the graphs of a micro-batch in the order of their runs, without work: forward, backward and, under Parm's
  /// S1, the gathering of the gradients of shares. Takes the time of a step on the meta device: milliseconds.
  std::vector<schedule::TaskGraph> graphs(const moe::MoeSchedule& schedule);

 private:
  RunOnMeta run_;
};

/// Graphs of all ranks. Ranks form a class if their groups lie on nodes in the same way. Their graphs differ only by
/// chance, because every rank spreads its rows over all experts alike, so one rank of each class runs for all of them.
/// Every rank of a job makes the same graphs without communication.
class LayerGraphs {
 public:
  /// Makes the classes. `node_of_rank` is as in ProcessGroup, for all ranks of the job.
  LayerGraphs(const train::Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout,
              const std::vector<int>& node_of_rank);

  /// Returns the class of each rank.
  const std::vector<size_t>& class_of_rank() const { return class_of_rank_; }
  /// Returns the graphs of each class (LayerOnMeta::graphs). A class whose pipeline stage has no MoE layer has none.
  std::vector<std::vector<schedule::TaskGraph>> graphs(const moe::MoeSchedule& schedule);

 private:
  std::vector<size_t> class_of_rank_;
  std::vector<std::unique_ptr<LayerOnMeta>> layers_;  // by class; null: no MoE layer
};

}  // namespace hexad::plan
