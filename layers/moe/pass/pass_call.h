// What forward and backward of one call of an MoE layer share.
#pragma once

#include <string_view>
#include <vector>

#include "layers/moe/experts.h"
#include "layers/moe/pass/token_routes.h"

namespace hexad::moe {

/// What the experts of one chunk, or of all together, leave for backward, and later for the weights.
struct ExpertWork {
  Tensor rows;
  ExpertMiddle middle;
  Tensor results;  // rows of tokens: their gradients' dot product is that of the weights
  ExpertGradients gradients;
  Tensor doutput;
};

struct PassCall {
  TokenRoutes routes;
  ExpertRoute route;
  const Experts* experts;
  std::vector<ExpertWork> work;  // by chunk; one when they are computed together
  SharedWork shared{};           // of forward
  size_t shared_begin = 0;       // number of its first op on the tape

  PassCall(TokenRoutes r, ExpertRoute how, const Experts& e)
      : routes(std::move(r)),
        route(std::move(how)),
        experts(&e),
        work(routes.plan.counts.merged ? 1 : routes.plan.counts.chunks.size()) {}

  /// The rows of a part by expert, and how the schedule has their products computed.
  RowGroups groups(size_t part) const {
    const ep::ChunkCounts& chunk = routes.plan.counts.chunks[part];
    const Tensor& on_device = routes.plan.indices.chunks[part].offsets;
    if (!on_device.defined())
      return {kernels::GroupOffsets::on_host(chunk.offsets), route.schedule.is_dense(chunk.offsets)};
    return {{.groups = on_device.dim(0) - 1, .max_rows = chunk.rows_computed(), .host = {}, .device = on_device}};
  }
  /// A pass of rows like those of `like`.
  MoePass trip(const Tensor& like) const;
  /// Of the tokens that the plan is made from: the op's, or its part of them that this rank sends, or those of all
  /// ranks that bring theirs together.
  Tensor plan_weights(const Tensor& weights, Stream& s) const;
  /// Rows of tokens: results are weighed where they are computed. Returns the op's weights as [W, M], for `trip` to
  /// send with its rows; nothing for rows of slots.
  Tensor weigh_results(MoePass& trip, const Tensor& weights, Stream& s) const;
  /// False: the route's runner only looks at passes.
  bool computes() const { return !route.runner || route.runner->computes(); }
  /// For a pass to compute with. Ranks do so at the same place of every pass, whatever its rows and chunks.
  ExpertWeights hold_weights(Stream& s, kernels::Direction direction) const {
    return computes() ? experts->hold(s, direction) : ExpertWeights{};
  }
  /// Runs it, or has the route's runner do so, as `pass`.
  void run(MoePass& trip, std::string_view pass) const;
  /// Once: `forward` computes the shared experts, which record their ops on the tape.
  void take_shared(MoePass& forward);
  /// `backward` runs those ops' pullbacks, as a part of `b`'s.
  void return_shared(MoePass& backward, Backward& b) const;
  /// Once, after the input gradients of `part`.
  void weight_gradients(Stream& s, size_t part);
};

/// Rows of the tokens that this rank sends, together with those of the ranks that bring theirs together.
struct BroughtTogether {
  Tensor rows;
  /// `trip` brings them together first; it must not outlive this.
  void by(MoePass& trip, const TokenRoutes& routes);
};

}  // namespace hexad::moe
