// Routes of the tokens of one call: to their experts and back.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/schedule/graph_runner.h"
#include "framework/schedule/layer_clock.h"
#include "layers/moe/experts/experts.h"
#include "layers/moe/routes/row_format.h"
#include "layers/moe/schedule/issue_order.h"
#include "layers/moe/schedule/moe_schedule.h"
#include "parallel/ep/routing_plan.h"

namespace hexad::moe {

using schedule::PassKind;

/// Groups in which a pass communicates.
struct PassGroups {
  ep::ExpertGroups experts;
  const comm::ProcessGroup* tensor;  // tensor-parallel ranks
};

/// Settings that all passes of a layer share.
struct PassSettings {
  MoeSchedule schedule;
  IssueOrder order;  // issue order named by schedule.order
  int64_t experts;   // number of experts on all ranks
  ep::ExpertGroups groups;
  const comm::ProcessGroup* tensor;                    // tensor-parallel ranks, which may hold the same tokens
  std::vector<int> tensor_ep_ranks;                    // ep rank of each rank of `tensor`
  std::string name;                                    // name of the layer, for PassName
  schedule::GraphRunner* runner = nullptr;             // runs every pass; null: passes run directly
  schedule::LayerClock* clock = nullptr;               // times forward and backward; null: they are not timed
  const kernels::WireKernels* wire_kernels = nullptr;  // kernels for every pass; null: the kernels of the device
  double capacity_factor = 0;                          // model.moe.capacity_factor; 0: experts have no capacity
  // Groups with the same ranks as `groups` and `tensor`, for tasks that lanes post late (mesh::Posting). The rank's
  // thread posts in `groups` and `tensor` at the same time. Unset: late tasks also communicate in `groups` and
  // `tensor`.
  std::optional<PassGroups> lane_groups{};
  FusedDuels* duels = nullptr;  // decide schedule.fused if it is unset (auto); null: unset means off

  /// Starts to time the part of the layer that runs a pass of this kind. The caller calls PartTimer::stop() of the
  /// result. Returns null if the part is not timed.
  std::shared_ptr<schedule::PartTimer> start(PassKind kind, Stream& stream) const {
    return clock ? clock->start({name, kind}, stream) : nullptr;
  }

  /// Returns the choice for a direction. The choice applies only where the products are grouped and the rank has no
  /// shadows. It contains a duel if a duel decides schedule.fused and has no winner yet.
  FusedChoice fused(kernels::Direction direction) const {
    if (schedule.fused || !duels) return {.fused = schedule.fused == Fused::on};
    kernels::Duel& duel = duels->of(direction);
    return {.fused = duel.winner() == kernels::Duel::Winner::candidate, .duel = duel.winner() ? nullptr : &duel};
  }

  /// Returns the capacity up to which ranks send padding (schedule.moe.capacity_padding), as a factor of the mean load;
  /// 0: no padding.
  double padded_capacity() const {
    const bool pads = schedule.capacity_padding == CapacityPadding::full && groups.experts->size() > 1;
    return pads ? capacity_factor : 0;
  }
  /// Returns the number of times that each token is sent to the experts if all tensor-parallel ranks hold it.
  int copies() const;
};

/// Distribution of a call's tokens over the tensor-parallel ranks.
enum class Held : uint8_t {
  apart,  // each rank has its own tokens
  alike,  // all ranks have the same tokens
  share,  // each rank has a share of the tokens, in rank order, and needs the results of all tokens
};

/// Returned rows that the ranks of a group all-gather, chunk by chunk or, if rows return in phases, set by set
/// (ep::ReturnSet).
struct RowCollection {
  const comm::ProcessGroup* group;
  std::vector<std::vector<int64_t>> counts;  // numbers of rows, [chunks or sets][ranks of the group]
  Tensor rows;                               // [T, K]: index of each slot's row among the gathered rows
};

/// Tokens of one chunk: [begin, end), counted from this rank's first own token (Routes::begin). `rows` [end - begin, K]
/// contains the index of each slot's row among the slot rows of the chunk.
struct ChunkTokens {
  int64_t begin, end;
  Tensor rows;
};

/// Routes of one call's tokens.
struct Routes {
  PassSettings settings;
  ep::RoutingPlan plan{};      // routing plan for tokens [begin, end), or for the tokens of all `gatherers`
  int64_t begin = 0, end = 0;  // tokens [begin, end) of the result; this rank sends them to the experts
  int copies = 1;              // number of times that each token is sent to its experts

  /// Ranks that gather their tokens before dispatch (DeepSpeed's ESP-AllGather); null: tokens are not gathered. This
  /// rank's tokens are tokens [gathered_begin(), gathered_begin() + end - begin) of the routing plan.
  const comm::ProcessGroup* gatherers = nullptr;
  int64_t gathered_begin() const { return gatherers ? gatherers->rank() * (end - begin) : 0; }
  /// Tensor-parallel ranks that each send a share of the tokens to the experts, and then gather the results of all
  /// tokens. Null with Held::apart, or if ranks that hold the same tokens do not divide them (MoeSchedule::divides()).
  /// If null, the result has only tokens [begin, end).
  const comm::ProcessGroup* sharers = nullptr;
  /// True if each sharer holds the inputs of all tokens. The sharers then also gather the gradients of the inputs.
  bool inputs_alike = false;
  /// Rows that the sharers gather chunk by chunk or set by set; empty: the sharers, if any, gather the results of all
  /// tokens at the end.
  std::optional<RowCollection> collection{};

  const ep::ChunkCounts& counts(size_t chunk) const { return plan.counts.chunks[chunk]; }
  /// Returns the number of expert computations in a pass: one per chunk, or one if chunks are computed together.
  size_t computations() const { return plan.counts.merged ? 1 : plan.counts.chunks.size(); }
  /// True if the offsets of the experts' rows are only on the device (ep::make_local_routing_plan).
  bool is_local() const { return plan.indices.chunks.front().offsets.defined(); }
  /// True if rows belong to tokens instead of slots. The routing weights are then sent with the rows, because the ranks
  /// of the experts multiply the results by them.
  bool rows_are_tokens() const { return plan.counts.row_of == ep::RowOf::token; }

  // This rank's own tokens are tokens [begin, end) of the result. The next three functions return all rows if tp is 1
  // and there are no gatherers. This rank's own tokens are then all tokens of the result and of the routing plan.
  /// Returns the part of `rows` that belongs to this rank's own tokens. `rows` has one row per token of the result, or
  /// one row per own token. In the second case, returns `rows` unchanged.
  Tensor own_rows_of_result(const Tensor& rows) const {
    return rows.dim(0) == end - begin ? rows : rows.slice(0, begin, end);
  }
  /// Returns the part of `rows` that belongs to this rank's own tokens. `rows` has one row per routed token, which is a
  /// token of the routing plan.
  Tensor own_rows_of_plan(const Tensor& rows) const {
    return rows.slice(0, gathered_begin(), gathered_begin() + end - begin);
  }
  /// Returns, for each slot of this rank's own tokens, the index of its slot row, [end - begin, K].
  Tensor rows_of_own_slots() const { return own_rows_of_plan(plan.indices.rows); }
  /// Returns the row offsets of the experts in a chunk. RowGroups::dense is true if the schedule computes one expert
  /// per kernel call.
  RowGroups groups(size_t chunk) const;
  /// Returns the rows that a chunk sends, taken from `tokens`, which has one row per routed token
  /// (RoutingIndices::wire_tokens). Includes the chunk's part of `row_weights` [W, M] if this tensor is defined.
  RowSource sent_rows(size_t chunk, const Tensor& tokens, const Tensor& row_weights) const;
  /// Returns the rows that a chunk sends, taken from slot rows [S, D] (RoutingIndices::wire_slots). Row i to send is
  /// slot row i if wire_slots is undefined.
  RowSource sent_slots(size_t chunk, const Tensor& slot_rows) const;
  /// Returns the token of each slot row [S], or -1 for rows without a slot. Returns an undefined tensor if the plan
  /// does not have these tokens: if wire_slots is defined, or if rows may be padding, whose token is 0 in the plan.
  Tensor tokens_of_slot_rows() const;
  /// Returns the tokens of each chunk, in the order of the chunks. The routing plan must have chunks of tokens.
  std::vector<ChunkTokens> chunk_tokens(Stream& stream) const;
};

/// Makes the routes of a call. Decides which tokens this rank sends, and sorts their slots into the order of the rows
/// to send (ep::order_slots). Then exchanges the numbers of rows with the other ranks (ep::make_routing_plan). `held`
/// describes how the tp ranks hold ids and the tensors with the same rows. The number of chunks is
/// - 1 if rows return in phases;
/// - with chunk_by: nodes, the number in the schedule, but at most the number of ep ranks;
/// - otherwise, the number in the schedule.
/// There are more chunks, at most one per token, if this routing needs buffers that exceed schedule.memory_limit.
/// `dtype` is the dtype of the rows. All ranks of an ep x etp group get the same number of chunks. Other groups may get
/// another number. Collective over the groups of `settings`.
Routes make_routes(const Tensor& ids, Held held, const PassSettings& settings, const ExpertShape& shape, Dtype dtype,
                   Stream& stream);

}  // namespace hexad::moe
