// Returns the experts' results to the ranks of their tokens.
#pragma once

#include <span>

#include "layers/moe/pass/expert_tasks.h"
#include "layers/moe/pass/phased_combine.h"

namespace hexad::moe {

/// Adds the following tasks for each chunk (see docs/moe-layer.md for their lanes). The result of a chunk is its slot
/// rows. add_phased_return() adds the tasks from combine.a2a on if rows return in phases (RoutingCounts::phased).
///   combine.reorder          copies results, which are grouped by expert, back into the order and format in which the
///                            rows arrived. Sums the copies of each token (EPS-MoE's LocalReduce), over all chunks if
///                            rows are joined. Omitted if nothing changes or if a later task packs the rows
///   combine.reduce_scatter   with esp_exchange: gather, sums the results of ranks that share an expert's width
///   combine.all_reduce       with esp_exchange: replicated, sums the results of ranks that share an expert's width
///   combine.a2a              returns the rows; in a hierarchical all-to-all, only between nodes. With windows, copies
///                            the results of this rank's rows from the windows of the experts' ranks
///   combine.a2a_inside       only hierarchical: returns the rows to their sources inside nodes
///   combine.unpack           unpacks returned rows and sums addends; omitted if the all-to-all delivers slot rows
///   combine.all_gather       only with a RowCollection: gathers the returned rows on each tensor-parallel rank
class Combine {
 public:
  struct Options {
    int64_t row_weights = 0;                    // number of weights returned with each slot of a row
    const RowCollection* collection = nullptr;  // null: rows are not gathered
    /// Receives the slot rows of each chunk in a bounded pass, which does not store them.
    std::function<void(Stream&, size_t, Rows)> accept{};
  };
  /// Allocates the buffers of the returned rows. `g`, to which add() adds tasks, and `options.collection` must outlive
  /// this object.
  Combine(PassGraph& g, Options options);

  /// Adds the tasks of a chunk. The results are multiplied by `row_weights` [R, M] before they are summed if rows
  /// belong to tokens; undefined: not multiplied.
  void add(size_t chunk, const Computed& computed, Handoff<Tensor> row_weights);

  // Call the next four functions only in a pass that is not bounded, once its rows have returned.
  /// Sums the slot rows of each of this rank's own tokens, as the last step of the pass: out[t] = sum_k weights[t, k] *
  /// row of slot (t, k), plus row t of each of `addends`. `out` [Routes::end - Routes::begin, D] and the addends have
  /// one row per own token. `weights` [T, K] has one row per own token or per token of the result. All weights are 1 if
  /// `weights` is undefined.
  void sum_own_slots(Stream& s, const Tensor& out, const Tensor& weights, std::span<const Tensor> addends) const;
  /// Sums the gathered rows of all tokens of the result like sum_own_slots(). Requires a RowCollection.
  void sum_collected_slots(Stream& s, const Tensor& out, const Tensor& weights, std::span<const Tensor> addends) const;
  /// Returns the slot rows in the order of RoutingIndices::rows: values [S, D] and row_weights [S, M X]. A row has M
  /// slots, with X weights each.
  const Rows& slot_rows() const { return slot_rows_.read(); }
  /// Returns the gathered rows of the collection, sorted by chunk or set, then by rank.
  const Tensor& collected() const { return collected_; }

 private:
  /// Conversion of the returned rows of a chunk to slot rows.
  enum class ReturnTarget : uint8_t {
    as_received,  // the received tensor is the slot rows, because there is one chunk and its rows are in order
    in_place,     // the all-to-all writes to the chunk's part of the slot rows
    unpacked,     // a task copies rows to the slot rows or, in a bounded pass, passes them to Options::accept
  };
  struct Chunk {
    TaskId last = no_task;
    Handoff<Rows> rows{};  // results, then the same rows in wire format
  };
  Lane reordering_lane() const;
  void add_reordering(size_t chunk, Handoff<Rows> results, Handoff<Tensor> row_weights);
  void add_joined_reordering(size_t chunk, Handoff<Rows> results, Handoff<Tensor> row_weights);
  void add_reduce_scatter(size_t chunk);
  void add_all_reduce(size_t chunk);
  ReturnTarget return_target() const;
  void add_all_to_all(size_t chunk);
  void add_window_exchange(size_t chunk);
  void add_unpacking(size_t chunk);
  Rows unpacked(size_t chunk, const Tensor& sent, Stream& s) const;
  void add_all_gather(size_t chunk);
  bool sums_before_return() const;
  /// Adds a task that starts after the chunk's latest task.
  void append(size_t chunk, Lane lane, TaskKind kind, std::string_view step, Cost cost, schedule::TaskWork work);

  PassGraph& g_;
  const Options options_;
  const RowFormat format_;
  std::vector<Chunk> chunks_;
  Handoff<Rows> slot_rows_;
  Handoff<Rows> joined_;        // results of all chunks, if rows are joined
  TaskId reordered_ = no_task;  // combine.reorder of the last chunk that was added, if rows are joined
  Tensor collected_;
};

/// Adds the task combine.tokens, which starts after PassGraph::result_tasks(), and calls `combine`.
TaskId add_token_combine(PassGraph& g, Lane lane, std::function<void(Stream&)> combine);
/// Adds the task `name`, which starts after the tasks `after`. The task gathers the shares `own` [share, ...] of all
/// tensor-parallel ranks in a new tensor `all` [T, ...]. `own_bytes` is the size of `own`.
void add_share_gather(PassGraph& g, std::vector<TaskId> after, std::string name, int64_t own_bytes,
                      const Handoff<Tensor>& own, Handoff<Tensor> all);
/// Runs the task shares.all_gather and returns the gathered shares `own` of all tensor-parallel ranks (Parm's S1). The
/// task is in a separate graph, because the gate's gradient, which is computed after the pass, is part of each share.
Tensor gather_gradient_of_shares(const PassSettings& settings, const Tensor& own);

}  // namespace hexad::moe
