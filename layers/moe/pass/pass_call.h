// What forward and backward of one call of an MoE layer share.
#pragma once

#include <string_view>
#include <vector>

#include "layers/moe/experts.h"
#include "layers/moe/pass/pass_graph.h"
#include "layers/moe/pass/token_routes.h"

namespace hexad::moe {

using autograd::Backward;

struct PassCall {
  TokenRoutes routes;
  ExpertRoute route;
  const Experts* experts;
  std::vector<ChunkTokens> tokens{};  // by chunk, where each chunk's results are combined on their own
  SharedWork shared{};                // of forward: costs alone
  size_t shared_begin = 0;            // number of its first op on the tape

  const ep::RoutingPlan& plan() const { return routes.plan; }
  const ep::ChunkCounts& counts(size_t chunk) const { return plan().counts.chunks[chunk]; }
  /// How many times experts compute in a pass: once for every chunk, or once for all.
  size_t computations() const { return plan().counts.merged ? 1 : plan().counts.chunks.size(); }
  /// Rows are of tokens: experts' ranks weigh the results, so the weights travel with the rows.
  bool of_tokens() const { return plan().counts.row_of == ep::RowOf::token; }
  /// The rows of a chunk by expert, and how the schedule has their products computed.
  RowGroups groups(size_t chunk) const;

  /// A pass of rows like those of `like`.
  MoePass describe(const Tensor& like) const;
  /// What a pass sends of `rows` [W, D] (PassWork::pack), and beside them of `row_weights` [W, M], if defined.
  RowSource token_rows(size_t chunk, const Tensor& rows, const Tensor& row_weights) const;
  /// Of the tokens that the plan is made from: the op's, or its part of them that this rank sends, or those of all
  /// ranks that gather theirs.
  Tensor plan_weights(const Tensor& weights, Stream& s) const;

  /// False: the route's runner only looks at passes.
  bool computes() const { return !route.runner || route.runner->computes(); }
  /// For a pass to compute with. Ranks do so at the same place of every pass, whatever its rows and chunks.
  ExpertWeights hold_weights(Stream& s, kernels::Direction direction) const {
    return computes() ? experts->hold(s, direction) : ExpertWeights{};
  }
  /// Runs it, or has the route's runner do so, as `name`.
  void run(const MoePass& pass, PassWork& work, PassBuffers& buffers, std::string_view name) const;
  /// The pullbacks of the shared experts' ops, which forward recorded, as a part of `b`'s.
  SharedWork shared_backward(Backward& b) const;
};

}  // namespace hexad::moe
