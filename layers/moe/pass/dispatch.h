// Sends rows to the ranks of their experts.
#pragma once

#include <optional>
#include <utility>

#include "layers/moe/pass/pass_graph.h"

namespace hexad::moe {

/// Rows that have arrived on the rank that computes them, grouped by local expert.
struct Arrived {
  std::vector<TaskId> after;  // tasks that deliver the rows
  Handoff<Rows> rows;
  int takers = 1;  // number of tasks that take `rows` (Handoff::take_as_one_of)
};

/// Returns the routing plan's tokens, of which `own` [T, D] belong to this rank. Adds the task dispatch.tokens if ranks
/// gather tokens before dispatch (Routes::gatherers). This task puts the tokens of all gatherers in place of `own`.
Handoff<Tensor> add_token_gather(PassGraph& g, Tensor own);
/// Returns the weights of the routing plan's tokens, taken from the op's `weights` [T, K]. Adds the task
/// dispatch.weights, which gathers the weights of all gatherers, if ranks gather tokens. Otherwise, returns the weights
/// of this rank's own tokens.
Handoff<Tensor> add_weight_gather(PassGraph& g, const Tensor& weights);

/// Weights [W, M] of the M slots of each of the W rows to send, if rows are sent with weights (wire_weights()). They
/// are made when the first chunk is packed. Before that, the task dispatch.weights may not yet have gathered the
/// weights of the routing plan's tokens.
class WireWeights {
 public:
  WireWeights() = default;  // rows have no weights
  /// Makes the weights of rows from `weights`, which will contain the weights [T, K] of the routing plan's tokens.
  explicit WireWeights(Handoff<Tensor> weights) : weights_(std::move(weights)) {}
  /// Returns the weights; undefined if rows have none. Call this function only in tasks of one lane.
  const Tensor& get(Stream& s, const ep::RoutingPlan& plan);

 private:
  std::optional<Handoff<Tensor>> weights_{};
  Handoff<Tensor> by_row_{};
};

/// Adds the following tasks for each chunk (see docs/moe-layer.md for their lanes):
///   dispatch.pack         copies rows into the order and format in which they are sent (RowFormat::gather_packed).
///                         Copies nothing if rows have this order and format. In backward, the first task may also
///                         compute the rows of all chunks (rows_of_slots() in keeping_pass.cpp)
///   dispatch.a2a_inside   only hierarchical: sends each row to the rank of this node that corresponds to the rank of
///                         the row's expert: both ranks have the same index in their nodes
///   dispatch.a2a          sends rows to the experts' ranks; in a hierarchical all-to-all, only between nodes. With
///                         windows, copies rows to their positions among the grouped rows of these ranks;
///                         dispatch.pack then obtains the rows without copying them
///   dispatch.all_gather   gathers the rows received by ranks that share an expert's width (esp_exchange: gather)
///   dispatch.place        copies row r to row place[r] of the grouped rows (ChunkIndices); omitted if rows arrive
///                         grouped and in plain format, and chunks are not computed together. If rows are joined
///                         (RoutingCounts::joined), each chunk copies a row to the row's experts of that chunk
class Dispatch {
 public:
  struct Options {
    std::string_view name = "dispatch";
    int64_t row_weights = 0;     // number of weights sent with each slot of a row
    bool keeps_weights = false;  // true: keeps the weights of token rows for the combine
  };
  /// Adds tasks to `g`, which must outlive this object. Chunks that are computed together share one buffer.
  Dispatch(PassGraph& g, const Options& options);

  /// Adds the tasks that send a chunk. They start after the task `after`. The task dispatch.pack calls `rows` to obtain
  /// the rows to send. Also adds dispatch.place if chunks are computed together.
  void add(size_t chunk, TaskId after, std::function<RowSource(Stream&)> rows);
  /// Returns the grouped rows of the chunk, or of all chunks that are computed together. Adds dispatch.place if it is
  /// needed and add() has not added it. Call this function in the step that computes the chunk: a lane runs its tasks
  /// in the order in which they were added. If add() had already added dispatch.place of the next chunk, this chunk's
  /// experts would wait for that task on the compute lane.
  Arrived add_arrival(size_t chunk);
  /// Returns the received weights [R, M] of the slots of token rows; undefined if Options::keeps_weights is false. R
  /// includes the rows of all chunks if rows are joined.
  Handoff<Tensor> row_weights(size_t chunk) const {
    return g_.counts.joined ? joined_weights_ : chunks_[chunk].row_weights;
  }

 private:
  struct Chunk {
    TaskId last = no_task;
    Handoff<RowSource> source{};  // rows to send; only with windows
    Handoff<Rows> rows{};         // rows in wire format, then the same rows grouped
    Handoff<Tensor> row_weights{};
  };
  void add_packing(size_t chunk, std::function<RowSource(Stream&)> rows);
  void add_all_to_all(size_t chunk);
  void add_window_exchange(size_t chunk, std::function<RowSource(Stream&)> rows);
  void add_width_gather(size_t chunk);
  void add_placing(size_t chunk);
  void add_joined_placing(size_t chunk);
  /// Adds a task that starts after the chunk's latest task.
  void append(size_t chunk, Lane lane, TaskKind kind, std::string_view step, Cost cost, schedule::TaskWork work);

  PassGraph& g_;
  const std::string name_;
  const RowFormat format_;
  const bool keeps_weights_;
  std::vector<Chunk> chunks_;
  Handoff<Rows> together_;  // grouped rows of all chunks, if chunks are computed together
  Handoff<Rows> joined_;    // arrived rows of all chunks, if rows are joined
  Handoff<Tensor> joined_weights_;
};

}  // namespace hexad::moe
