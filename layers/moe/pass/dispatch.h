// Sends rows to the ranks of their experts.
#pragma once

#include "layers/moe/pass/pass_graph.h"

namespace hexad::moe {

/// Rows where they are computed, grouped by local expert.
struct Arrived {
  std::vector<TaskId> after;  // tasks that bring them
  Handoff<Rows> rows;
};

/// Adds dispatch.tokens if ranks gather their `tokens` [T, D] first: they are then those of all these ranks.
void add_token_gather(PassGraph& g, Tensor& tokens);

/// Adds, for each chunk (lanes are in docs/moe-layer.md):
///   dispatch.pack         copies rows into the order and format in which they are sent (RowFormat::pack)
///   dispatch.a2a_inside   hierarchical: hands them to the ranks of the node at the places of the experts' ranks
///   dispatch.a2a          sends them to the experts' ranks; hierarchical: between nodes
///   dispatch.all_gather   gathers what ranks that share an expert's width got
///   dispatch.place        copies row r to row place[r] of the grouped rows (ChunkIndices); left out where rows arrive
///                         grouped and in plain format
class Dispatch {
 public:
  struct Options {
    std::string_view name = "dispatch";
    int64_t row_weights = 0;     // that accompany each slot of a row
    bool keeps_weights = false;  // of rows of tokens, for the sums that return
  };
  /// `g` outlives it. Chunks that are computed together have one buffer for all.
  Dispatch(PassGraph& g, const Options& options);

  /// Adds the tasks that send a chunk, to begin after the task `after`; `rows` is called by dispatch.pack. Of chunks
  /// that are computed together it also adds dispatch.place.
  void add(size_t chunk, TaskId after, std::function<RowSource(Stream&)> rows);
  /// Adds dispatch.place unless add() did, and returns the grouped rows of the chunk, or of all that are computed
  /// together. Call it in the step that computes the chunk. A lane runs its tasks in the order in which they were
  /// added: if add() added dispatch.place of the next chunk, this chunk's experts would wait behind it on the compute
  /// lane.
  Arrived add_arrival(size_t chunk);
  /// [R, M]: of the slots of rows of tokens, as they came; by Options::keeps_weights, else undefined.
  const Handoff<Tensor>& row_weights(size_t chunk) const { return chunks_[chunk].row_weights; }

 private:
  struct Chunk {
    TaskId last = no_task;
    Handoff<Rows> rows{};  // as they travel, and then as they are computed
    Handoff<Tensor> row_weights{};
  };
  void add_packing(size_t chunk, std::function<RowSource(Stream&)> rows);
  void add_all_to_all(size_t chunk);
  void add_width_gather(size_t chunk);
  void add_placing(size_t chunk);
  /// Adds a task that begins when the chunk's last one is done.
  void append(size_t chunk, Lane lane, TaskKind kind, std::string_view step, Cost cost, schedule::TaskWork work);

  PassGraph& g_;
  const std::string name_;
  const RowFormat format_;
  const bool keeps_weights_;
  std::vector<Chunk> chunks_;
  Handoff<Rows> together_;  // of all chunks
};

}  // namespace hexad::moe
