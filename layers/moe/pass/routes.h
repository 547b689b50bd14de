// Routes of a call's tokens to their experts and back.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/schedule/graph_runner.h"
#include "layers/moe/experts/experts.h"
#include "layers/moe/pass/row_format.h"
#include "layers/moe/schedule/issue_order.h"
#include "layers/moe/schedule/moe_schedule.h"
#include "parallel/ep/routing_plan.h"

namespace hexad::moe {

/// Settings common to all passes of a layer.
struct PassSettings {
  MoeSchedule schedule;
  IssueOrder order;  // that schedule.order names
  int64_t experts;   // of all ranks
  ep::ExpertGroups groups;
  const comm::ProcessGroup* tensor;                    // ranks that may hold the same tokens
  std::vector<int> tensor_ep_ranks;                    // the place of each of them among the ranks of its ep group
  std::string name;                                    // of the layer, for its runner
  schedule::GraphRunner* runner = nullptr;             // of every pass; null: it is executed
  const kernels::WireKernels* wire_kernels = nullptr;  // of every pass; null: the device's

  /// Returns how often each token is computed if all tensor ranks hold it.
  int copies() const;
};

/// Distribution of a call's tokens over the tensor ranks.
enum class Held : uint8_t {
  apart,  // each has tokens of its own
  alike,  // all have the same
  share,  // each has its share of them, in rank order, and the result shall be of all
};

/// Rows that the ranks of a group gather from each other after they have returned, chunk by chunk.
struct RowCollection {
  const comm::ProcessGroup* group;
  std::vector<std::vector<int64_t>> counts;  // [chunks][ranks of the group]
  Tensor rows;                               // [T, K]: rows of all tokens' slots among those gathered
};

/// A chunk's tokens among those of the op, and the rows [tokens, K] of their slots among the chunk's.
struct ChunkTokens {
  int64_t begin, end;
  Tensor rows;
};

/// The routes of one call's tokens.
struct Routes {
  PassSettings settings;
  ep::RoutingPlan plan{};      // of tokens [begin, end), or of those of all etp ranks
  int64_t begin = 0, end = 0;  // of the result's tokens: those that this rank sends
  int copies = 1;              // how often a token is computed

  /// The ranks that first gather their tokens (DeepSpeed's ESP-AllGather); null: nobody does. This rank's tokens are
  /// then [gathered_begin, gathered_begin + end - begin) of the plan's.
  const comm::ProcessGroup* gatherers = nullptr;
  int64_t gathered_begin() const { return gatherers ? gatherers->rank() * (end - begin) : 0; }
  /// The tensor ranks where each of them sends a share of the tokens and all want the result: they gather it. Null:
  /// the result is of [begin, end).
  const comm::ProcessGroup* sharers = nullptr;
  /// True if they also hold all inputs, and therefore gather the inputs' gradients.
  bool inputs_alike = false;
  /// Rows gathered chunk by chunk; none: all tokens are gathered at the end.
  std::optional<RowCollection> collection{};

  const ep::ChunkCounts& counts(size_t chunk) const { return plan.counts.chunks[chunk]; }
  /// Returns the number of expert computations in a pass: one a chunk, or one for all.
  size_t computations() const { return plan.counts.merged ? 1 : plan.counts.chunks.size(); }
  /// Rows are of tokens: experts' ranks weigh the results, so the weights travel with the rows.
  bool of_tokens() const { return plan.counts.row_of == ep::RowOf::token; }
  /// False: the runner only looks at passes.
  bool computes() const { return !settings.runner || settings.runner->computes(); }

  // A rank's own tokens are [begin, end) of the result's. With tp = 1 they are all of the result's and all of the
  // plan's, and the next three functions return all rows.
  /// Returns the own tokens' rows of a tensor of the result's tokens; the tensor itself if it has no others.
  Tensor own_of_result(const Tensor& rows) const {
    return rows.dim(0) == end - begin ? rows : rows.slice(0, begin, end);
  }
  /// Returns the own tokens' rows of a tensor of the plan's tokens.
  Tensor own_of_plan(const Tensor& rows) const {
    return rows.slice(0, gathered_begin(), gathered_begin() + end - begin);
  }
  /// Returns the slot row of each slot of the own tokens, [end - begin, K].
  Tensor rows_of_own_slots() const { return own_of_plan(plan.indices.rows); }
  /// The rows of a chunk by expert, and how the schedule has their products computed.
  RowGroups groups(size_t chunk) const;
  /// Returns the rows that a chunk sends of `tokens`, those of the plan: for each row to send the row of its token
  /// (PlanIndices::wire_tokens), and its part of `row_weights` [W, M], if these are defined.
  RowSource sent_rows(size_t chunk, const Tensor& tokens, const Tensor& row_weights) const;
  /// Returns the rows of the op's `weights` [T, K] that belong to the plan's tokens: all, unless ranks gather tokens.
  Tensor plan_weights(const Tensor& weights, Stream& s) const;
  /// Returns the tokens of each chunk, in order.
  std::vector<ChunkTokens> chunk_tokens(Stream& stream) const;
};

/// Decides which tokens this rank sends, puts their slots into the order in which rows travel (ep::order_slots), and
/// exchanges with the other ranks how many rows go where (ep::make_routing_plan). `held`: of ids and what goes with
/// them. There are schedule.chunks chunks, or as many more chunks of tokens as schedule.memory_limit requires for this
/// routing of rows of `dtype`, at most one for every token. Collective over the groups of `settings`. All ranks that
/// share the experts get the same number of chunks, ranks with replicas of these experts perhaps another.
Routes make_routes(const Tensor& ids, Held held, const PassSettings& settings, const ExpertShape& shape, Dtype dtype,
                   Stream& stream);

}  // namespace hexad::moe
