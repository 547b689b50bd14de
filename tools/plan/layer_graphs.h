// Work of a recipe's MoE layers: task graphs, and the work outside of the graphs. This work is recorded by running the
// training code on the meta device.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "framework/schedule/rates.h"
#include "tools/plan/run_on_meta.h"

namespace hexad::plan {

/// Work of a micro-batch in an MoE layer on one rank, in the parts that a LayerClock times.
struct LayerWork {
  /// Graphs in execution order, which is the order of schedule::PassKind. Only Parm's S1 has the graph
  /// gradient_of_shares. The tasks cannot be executed.
  std::vector<schedule::TaskGraph> graphs{};
  /// Kernels, copies and transfers before and after the graphs, in the order of their issue. These operations do not
  /// overlap. Among the operations are:
  /// - the router
  /// - the exchanges that precede a graph (of counts, ids and scores)
  /// - shared experts that compute before or after the pass
  /// - sums of slot rows that are not tasks of a graph
  ///
  /// A kernel that is not a matrix product counts as a copy of half of the bytes that it reads and writes. A transfer
  /// is a task of the kind compute (Cost::transfers). Communication of data-parallel ranks is left out, because it
  /// overlaps the layers.
  std::vector<schedule::TaskSpec> outside{};

  /// Returns the seconds of the work outside of the graphs.
  double seconds_outside(const schedule::Rates& rates) const;
  /// Returns the links that the graphs and the work outside of them use, and that Rates::links lacks
  /// (schedule::unmeasured_links()).
  std::set<std::string> unmeasured_links(const schedule::Rates& rates) const;
};

/// One MoE layer of a recipe on one rank, without other ranks. Ignores model.moe.routing. Has a single pipeline stage.
/// Backward leaves out weight gradients that the recipe's pipeline delays in every backward
/// (PipelineConfig::delays_all_weights), because a LayerClock does not time them.
class LayerOnMeta {
 public:
  /// Makes a model of one block. `layout` is the layout of the whole job, which contains `rank`. `node_of_rank` is as
  /// in ProcessGroup. The recipe must have experts. `load` is the load of the experts in this layer.
  LayerOnMeta(const train::Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout, int rank,
              const std::vector<int>& node_of_rank, const RoutingLoad& load = RoutingLoad::even);

  /// Returns the work of a micro-batch. Each part occurs once, including the forward of a recomputed block. Takes
  /// milliseconds, the time of a step on the meta device.
  LayerWork work(const moe::MoeSchedule& schedule);
  /// Returns the number of operations in the log. A call of work() adds only the operations in LayerWork::outside, and
  /// the concurrent communication of data-parallel ranks.
  size_t logged() const { return run_.issues().issues().size(); }

 private:
  const double weight_elements_;  // elements of an expert's weight matrix; Cost::products counts products of this size
  const std::vector<int> nodes_;  // node of each rank of the stage
  RunOnMeta run_;
};

/// Work of all ranks. Ranks with the same placement of their groups on nodes form a class. The work of these ranks does
/// not differ systematically, because all ranks use the same routing model. Therefore, only one rank of each class
/// runs. Every rank of a job computes the same result without communication.
///
/// The busiest ep rank forms a separate class if the load is given, because all other ranks wait for this rank. The ep
/// rank with the median load represents all other ep ranks. Therefore, the time of a call does not grow with the number
/// of ep ranks.
class LayerGraphs {
 public:
  /// Makes the classes. `node_of_rank` is as in ProcessGroup, for all ranks of the job.
  LayerGraphs(const train::Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout,
              const std::vector<int>& node_of_rank, const RoutingLoad& load = RoutingLoad::even);

  /// Returns the class of each rank.
  const std::vector<size_t>& class_of_rank() const { return class_of_rank_; }
  /// Returns the work of each class. A class whose pipeline stage has no MoE layer has no work.
  std::vector<LayerWork> work(const moe::MoeSchedule& schedule);

 private:
  std::vector<size_t> class_of_rank_;
  std::vector<std::unique_ptr<LayerOnMeta>> layers_;  // by class; null: no MoE layer
};

}  // namespace hexad::plan
