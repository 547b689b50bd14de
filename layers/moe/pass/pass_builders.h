// The three builders of a pass's graph, and what they share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "layers/moe/pass/pass_graph.h"

namespace hexad::moe {

using schedule::Cost;
using schedule::Lane;
using schedule::TaskId;
using schedule::TaskKind;

constexpr TaskId no_task = -1;

/// What is sent to the experts in a chunk.
enum class Dispatched : uint8_t { rows, inputs };

/// Tasks of one chunk that others come after.
struct ChunkTasks {
  struct Unplaced {
    Dispatched what;
    TaskId arrived;
  };
  TaskId last = no_task;             // of its chain so far
  std::vector<TaskId> arrived{};     // what its experts wait for, ...
  std::vector<Unplaced> unplaced{};  // ... and what is copied to its place for them just before they compute
  TaskId computed = no_task, returned = no_task;
};

/// A graph in the making. Chunks are told from each other by their numbers.
struct PassGraph {
  PassGraph(const MoePass& p, PassWork& w, PassBuffers& b);

  const MoePass& pass;
  PassWork& work;
  PassBuffers& buffers;
  const ep::PlanCounts& counts;
  const comm::ProcessGroup& ranks;      // of the all-to-all
  const comm::NodeGroups* const nodes;  // its two levels; null: it takes one step
  const comm::ProcessGroup& etp;

  schedule::TaskGraph graph{};
  std::vector<ChunkTasks> chunks;
  TaskId gathered = no_task;
  // Chunks whose steps are in the graph, in order.
  std::vector<size_t> dispatched{}, computed{}, combined{};

  TaskId add_after(std::vector<TaskId> after, Lane lane, TaskKind kind, std::string name, Cost cost,
                   schedule::TaskWork task);
  /// After the chunk's last task.
  void add(size_t chunk, Lane lane, TaskKind kind, std::string name, Cost cost, schedule::TaskWork task);

  /// Of rows that have so many row weights for each slot.
  RowFormat format(int64_t row_weights) const;
  RowFormat format_back() const { return format(pass.rows.weights_back); }
  /// Of a row as it was computed.
  int64_t result_bytes() const { return pass.rows.width * size_of(pass.rows.dtype); }
  /// Whether etp ranks share an expert's width, and come by its rows in this way.
  bool shares_width(ep::EspExchange esp_exchange) const {
    return counts.esp_exchange == esp_exchange && etp.size() > 1;
  }
  /// Whether rows are sent in the order of the slot rows.
  bool in_order() const { return counts.esp_exchange != ep::EspExchange::direct && !nodes; }
  /// Whether what returns is the result: one chunk, in order, as it is sent.
  bool returns_at_once() const { return counts.chunks.size() == 1 && in_order() && format_back().plain(); }

  /// Of a transfer in `group`, which rates know by `name`.
  static Cost transfer(const comm::ProcessGroup& group, std::string name, int64_t sent, int64_t received);
  /// Of rows sent in a group that is the all-to-all's or, with a `level`, one of its two.
  Cost exchange(const comm::ProcessGroup& group, std::string_view level, const comm::Splits& splits,
                const RowFormat& format) const;
  /// Of what the hierarchical all-to-all copies on a rank that rows pass.
  int64_t passing_bytes(size_t chunk, const RowFormat& format) const;
  static Cost copied(int64_t bytes);
};

/// Work that is done when the lane has passed it.
schedule::TaskWork on_lane(std::function<void(Stream&)> work);
/// For rows as they are computed, each of one slot.
Rows grouped_buffer(const MoePass& pass, RowFormat format, int64_t rows);

// dispatch.cpp
void add_gather(PassGraph& g);                      // B
void add_dispatch(PassGraph& g, size_t chunk);      // P N S G, F, and D where it keeps nobody waiting
void add_late_placing(PassGraph& g, size_t chunk);  // D

// expert_compute.cpp
void add_compute(PassGraph& g, size_t chunk);                             // H C O
void add_compute_together(PassGraph& g);                                  // H C of all chunks
void add_weight_gradients(PassGraph& g, size_t chunk, std::string name);  // W

// combine.cpp
void add_combine(PassGraph& g, size_t chunk);  // U A R K L X

}  // namespace hexad::moe
