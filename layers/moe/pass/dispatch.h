// Sends rows to the ranks of their experts.
#pragma once

#include "layers/moe/pass/pass_graph.h"

namespace hexad::moe {

/// Rows where they are computed, grouped by local expert.
struct Arrived {
  std::vector<TaskId> after;  // tasks that bring them
  Slot<Rows> rows;
};

/// Adds, for each chunk (lanes are in docs/moe-layer.md):
///   dispatch.pack         brings rows into the order and format in which they are sent
///   dispatch.a2a_inside   hierarchical: hands them to the ranks of the node at the places of the experts' ranks
///   dispatch.a2a          sends them to the experts' ranks; hierarchical: between nodes
///   dispatch.all_gather   gathers what ranks that share an expert's width got
///   dispatch.place        copies rows to where they are computed
class Dispatch {
 public:
  struct Options {
    std::string_view name = "dispatch";
    int64_t row_weights = 0;     // that accompany each slot of a row
    bool keeps_weights = false;  // of rows of tokens, for the sums that return
  };
  /// `g` outlives it. Chunks that are computed together have one buffer for all.
  Dispatch(PassGraph& g, const Options& options);

  /// Sends a chunk after the task `after`; `rows` is called when it is packed.
  void add(size_t chunk, TaskId after, std::function<RowSource(Stream&)> rows);
  /// The rows of a chunk, or of all that are computed together, for their experts to compute. Called in the step that
  /// computes them: a lane runs its tasks in the order in which they were added, so a copy to their place that were
  /// added before would keep the experts waiting on the compute lane for rows that are still to come.
  Arrived arrive(size_t chunk);
  /// [R, M]: of the slots of rows of tokens, as they came; by Options::keeps_weights, else undefined.
  const Slot<Tensor>& row_weights(size_t chunk) const { return chunks_[chunk].row_weights; }

 private:
  struct Chunk {
    TaskId last = no_task;
    Slot<Rows> rows{};  // as they travel, and then as they are computed
    Slot<Tensor> row_weights{};
  };
  void append(size_t chunk, Lane lane, TaskKind kind, std::string_view step, Cost cost, schedule::TaskWork work);
  void add_packing(size_t chunk, std::function<RowSource(Stream&)> rows);
  void add_all_to_all(size_t chunk);
  void add_width_gather(size_t chunk);
  void add_placing(size_t chunk);

  PassGraph& g_;
  const std::string name_;
  const RowFormat format_;
  const bool keeps_weights_;
  std::vector<Chunk> chunks_;
  Slot<Rows> together_;  // of all chunks
};

}  // namespace hexad::moe
