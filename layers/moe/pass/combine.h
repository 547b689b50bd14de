// Returns the experts' results to the ranks of their tokens.
#pragma once

#include "layers/moe/pass/expert_tasks.h"

namespace hexad::moe {

/// Adds, for each chunk (lanes are in docs/moe-layer.md), and ends in slot rows:
///   combine.reorder          brings results, which lie grouped by expert, back into the order and format in which the
///                            rows arrived; makes the sum of a token's copies (EPS-MoE's LocalReduce)
///   combine.reduce_scatter,  add up results of ranks that share an expert's width
///   combine.all_reduce
///   combine.a2a              returns them; hierarchical: between nodes
///   combine.a2a_inside       hierarchical: and inside nodes, to where they came from
///   combine.unpack           unpacks what returned, and adds up addends; left out where the all-to-all itself writes
///                            the slot rows
///   combine.all_gather       gathers what returned to each of the tensor-parallel ranks
class Combine {
 public:
  struct Options {
    int64_t row_weights = 0;                    // that return beside each slot of a row
    const RowCollection* collection = nullptr;  // null: nothing is gathered
    /// Takes the slot rows of a chunk in a bounded pass, which keeps them nowhere else.
    std::function<void(Stream&, size_t, Rows)> accept{};
  };
  /// `g` outlives it.
  Combine(PassGraph& g, Options options);

  /// `row_weights` [R, M] weigh the results of slots in the sums of rows of tokens; undefined: they count as they are.
  void add(size_t chunk, const Computed& computed, const Handoff<Tensor>& row_weights);

  // After the pass, unless it is bounded.
  /// values [S, D], in the order of PlanIndices::rows; row_weights [S, M X], X for each of the slots of a row.
  const Rows& slot_rows() const { return slot_rows_.read(); }
  /// Rows of the collection, chunk by chunk, in each by rank.
  const Tensor& collected() const { return collected_; }

 private:
  /// Converts the returned rows of a chunk to slot rows:
  enum class Landing : uint8_t {
    as_they_are,  // the received tensor is all slot rows: there is one chunk, and its rows are in order
    in_place,     // they are received into the chunk's part of the slot rows
    unpacked,     // a task copies them there or, in a bounded pass, hands them to Options::accept
  };
  struct Chunk {
    TaskId last = no_task;
    Handoff<Rows> rows{};  // as they are computed, and then as they travel
  };
  void add_reordering(size_t chunk, const Handoff<Rows>& results, const Handoff<Tensor>& row_weights);
  void add_reduce_scatter(size_t chunk);
  void add_all_reduce(size_t chunk);
  Landing landing() const;
  void add_all_to_all(size_t chunk);
  void add_unpacking(size_t chunk);
  Rows unpacked(size_t chunk, const Tensor& sent, Stream& s) const;
  void add_all_gather(size_t chunk);
  bool adds_up() const;
  /// Adds a task that begins when the chunk's last one is done.
  void append(size_t chunk, Lane lane, TaskKind kind, std::string_view step, Cost cost, schedule::TaskWork work);

  PassGraph& g_;
  const Options options_;
  const RowFormat format_;
  std::vector<Chunk> chunks_;
  Handoff<Rows> slot_rows_;
  Tensor collected_;
};

/// combine.tokens: once all chunks have returned, `combine` makes this rank's tokens of their slot rows.
TaskId add_token_combine(PassGraph& g, Lane lane, std::function<void(Stream&)> combine);
/// Memory for the rows of all ranks of which `own` are this one's.
Tensor gathered_shares(const comm::ProcessGroup& ranks, const Tensor& own);
/// Adds `name`: the tensor ranks gather their shares of the tokens, from `own` [share, ...] to `all` [T, ...], which
/// the task makes; `own_bytes`: of this rank's. It begins when the tasks `after` are done.
void add_share_gather(PassGraph& g, std::vector<TaskId> after, std::string name, int64_t own_bytes,
                      const Handoff<Tensor>& own, const Handoff<Tensor>& all);

}  // namespace hexad::moe
