// Task graphs of a recipe's MoE layers, recorded by running the training code on the meta device.
#pragma once

#include <memory>
#include <vector>

#include "framework/schedule/task_graph.h"
#include "tools/plan/run_on_meta.h"

namespace hexad::plan {

/// One MoE layer of a recipe on one rank, without other ranks. Ignores model.moe.routing.
class LayerOnMeta {
 public:
  /// Makes a model of one block. `layout` is the layout of the whole job, which contains `rank`. `node_of_rank` is as
  /// in ProcessGroup. The recipe must have experts. `load` is the load of the experts in this layer.
  LayerOnMeta(const train::Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout, int rank,
              const std::vector<int>& node_of_rank, const RoutingLoad& load = RoutingLoad::even);

  /// Returns the graphs of a micro-batch in execution order: forward, backward and, under Parm's S1, "gradient of
  /// shares". The tasks cannot be executed. Takes milliseconds, the time of a step on the meta device.
  std::vector<schedule::TaskGraph> graphs(const moe::MoeSchedule& schedule);

 private:
  RunOnMeta run_;
};

/// Graphs of all ranks. Ranks with the same placement of their groups on nodes form a class. The graphs of a class do
/// not differ systematically, because all ranks use the same routing model. Therefore, only one rank of each class
/// runs. Every rank of a job computes the same result without communication.
///
/// If the load is given, the busiest ep rank forms a separate class, because all other ranks wait for it. The ep rank
/// with the median load represents all other ep ranks. Therefore, the time of a call does not grow with the number of
/// ep ranks.
class LayerGraphs {
 public:
  /// Makes the classes. `node_of_rank` is as in ProcessGroup, for all ranks of the job.
  LayerGraphs(const train::Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout,
              const std::vector<int>& node_of_rank, const RoutingLoad& load = RoutingLoad::even);

  /// Returns the class of each rank.
  const std::vector<size_t>& class_of_rank() const { return class_of_rank_; }
  /// Returns the graphs of each class (LayerOnMeta::graphs). A class whose pipeline stage has no MoE layer gets an
  /// empty list.
  std::vector<std::vector<schedule::TaskGraph>> graphs(const moe::MoeSchedule& schedule);

 private:
  std::vector<size_t> class_of_rank_;
  std::vector<std::unique_ptr<LayerOnMeta>> layers_;  // by class; null: no MoE layer
};

}  // namespace hexad::plan
