#include "layers/moe/pass/forward.h"

#include <optional>
#include <utility>

#include "layers/moe/routes/local_weights.h"
#include "layers/moe/routes/token_rows.h"

namespace hexad::moe {

namespace {

// Times at which forward sums the slot rows and addends of each token, and computes the shared experts.
struct Times {
  enum class Shared : uint8_t { before_pass, in_pass, after_pass };

  bool sums_chunks;  // true: the pass is bounded, and its tasks sum the slot rows of each chunk's tokens
  bool sums_shares;  // true: tasks of the pass sum or gather the results of all sharers' tokens (Routes::sharers)
  Shared shared;

  Times(const Routes& routes, Buffers buffers)
      : sums_chunks(buffers == Buffers::bounded),
        sums_shares(routes.sharers != nullptr),
        shared(routes.settings.schedule.shares_pass() ? Shared::in_pass
               : sums_in_pass()                       ? Shared::before_pass
                                                      : Shared::after_pass) {}
  bool sums_in_pass() const { return sums_chunks || sums_shares; }
};

// Adds the task that calls `sum` to compute the results of all tokens, which have the shape of `x`. Returns the
// results.
Handoff<Tensor> add_sum(PassGraph& g, const Tensor& x, const std::function<void(Stream&, const Tensor&)>& sum) {
  Handoff<Tensor> all;
  add_token_combine(g, Lane::compute, [all, x, sum](Stream& s) mutable {
    all.put(Tensor::like(x));
    sum(s, all.read());
  });
  return all;
}

// Adds the tasks that combine and gather results. Used if each tensor-parallel rank sends a share of the tokens, but
// needs the results of all tokens. `sum` computes the results of this rank's `tokens`. A bounded pass does not call
// `sum`, because other tasks have written these results to `own`. Returns the results of all tokens.
Handoff<Tensor> add_gathering(PassGraph& g, const Tensor& tokens, Handoff<Tensor> own,
                              const std::function<void(Stream&, const Tensor&)>& sum) {
  Handoff<Tensor> all;
  std::vector<TaskId> after = g.return_tasks();
  if (!g.bounded)
    after = {add_token_combine(g, Lane::compute, [own, tokens, sum](Stream& s) mutable {
      own.put(Tensor::like(tokens));
      sum(s, own.read());
    })};
  add_share_gather(g, std::move(after), "combine.all_gather", tokens.bytes(), own, all);
  return all;
}

// Returns rows [begin, end) of each addend.
std::vector<Tensor> rows_of_addends(const std::vector<Value>& addends, int64_t begin, int64_t end) {
  std::vector<Tensor> rows;
  for (const Value& addend : addends) rows.push_back(addend.data.slice(0, begin, end));
  return rows;
}

}  // namespace

ForwardResult forward(const Routes& routes, const Experts& experts, const Tensor& x, const Tensor& weights,
                      const ForwardKeeps& keeps, const std::vector<Value>& addends, const SharedWork& shared,
                      Stream& stream) {
  const Buffers buffers = keeps.offloaded ? Buffers::bounded : Buffers::own;
  const Times times(routes, buffers);
  const bool rows_are_tokens = routes.rows_are_tokens(), weighted = experts_apply_weights(routes, experts);
  const auto compute_shared = [&](Times::Shared now) {
    if (now == times.shared && shared.compute) shared.compute();
  };
  compute_shared(Times::Shared::before_pass);
  const auto& k = kernels_of(x).permute;
  std::optional<ExpertWeights> expert_weights = experts.hold(stream, kernels::Direction::forward);
  const Tensor own_tokens = routes.own_rows_of_result(x);  // equal to x if tp is 1
  // Rows of slots return without weights. This rank multiplies them by the weights if experts_apply_weights() is false.
  // It is always false if the experts are on several ranks. Rows of tokens are sent with their weights and return as
  // weighted sums.
  const Tensor computed_weights =
      weighted ? weights_of_computed(stream, routes, routes.own_rows_of_result(weights)) : Tensor{};
  const Tensor weights_on_return = rows_are_tokens || weighted ? Tensor{} : weights;

  PassGraph g(routes, x, buffers);
  ShadowTasks shadows(g, experts);
  const TaskId shadows_received = shadows.add_broadcast(*expert_weights);
  const Handoff<Tensor> tokens = add_token_gather(g, own_tokens);
  WireWeights row_weights = rows_are_tokens ? WireWeights(add_weight_gather(g, weights)) : WireWeights();
  Handoff<Tensor> own;  // results of this rank's tokens, in a bounded pass
  if (times.sums_chunks) own.put(Tensor::like(own_tokens));
  const auto combine_chunk = [&](Stream& s, size_t c, const Rows& slots) {
    const ChunkTokens& t = (*keeps.tokens)[c];
    const Tensor of_chunk =
        weights_on_return.defined() ? routes.own_rows_of_result(weights_on_return).slice(0, t.begin, t.end) : Tensor{};
    // At this point, `addends` includes the results of the shared experts: they run before the pass, or on the compute
    // lane before the chunk's experts.
    k.combine(s, own.read().slice(0, t.begin, t.end), slots.values, t.rows, of_chunk,
              rows_of_addends(addends, routes.begin + t.begin, routes.begin + t.end));
  };
  Combine combine(g, {.collection = routes.collection ? &*routes.collection : nullptr, .accept = combine_chunk});
  Dispatch dispatch(g, {.row_weights = rows_are_tokens ? 1 : 0, .keeps_weights = rows_are_tokens});
  ExpertTasks expert_tasks(g, experts.flops_per_row(), {experts.products(), 0, 0});
  const auto compute_chunk = [&](Stream& s, size_t c, Rows rows) {
    ExpertActivations activations =
        expert_weights->activations(s, rows.values, routes.groups(c), part_of_computation(routes, computed_weights, c));
    Rows results{expert_weights->output(s, activations, routes.groups(c))};
    if (weighted) activations.activated = {};  // backward recomputes it
    ChunkActivations made{.inputs = std::move(rows.values),
                          .activations = std::move(activations),
                          .results = rows_are_tokens ? results.values : Tensor{}};
    if (keeps.offloaded)
      keeps.offloaded->put(c, std::move(made.activations));
    else if (keeps.all)
      (*keeps.all)[c] = std::move(made);
    return results;
  };
  TaskId offloaded_before = no_task;  // task that offloads T_M of the chunk that was computed last
  g.add_steps({.dispatch =
                   [&](size_t c) {
                     // Each row to send is a copy of its token's row (RoutingIndices::wire_tokens).
                     dispatch.add(c, g.room_to_dispatch(), [&, c](Stream& s) {
                       return routes.sent_rows(c, tokens.read(), row_weights.get(s, routes.plan));
                     });
                   },
               .shared_experts =
                   [&] {
                     if (times.shared == Times::Shared::in_pass) expert_tasks.add_shared(shared);
                   },
               .compute =
                   [&](size_t c) {
                     Arrived arrived = dispatch.add_arrival(c);
                     if (keeps.offloaded) arrived = keeps.offloaded->add_inputs_offload(g, c, std::move(arrived));
                     // If T_M is offloaded (S1, S2), chunks share one buffer for T_M, as in MPMoE. The buffer's
                     // contents are offloaded before the next chunk is computed.
                     expert_tasks.add(c, std::move(arrived), {shadows_received, offloaded_before},
                                      [&, c](Stream& s, Rows rows) { return compute_chunk(s, c, std::move(rows)); });
                     if (!keeps.offloaded) return;
                     offloaded_before = keeps.offloaded->add_activations_offload(g, c, expert_tasks.computed(c).by);
                   },
               .combine = [&](size_t c) { combine.add(c, expert_tasks.computed(c), dispatch.row_weights(c)); }});
  // Computes T_O of all tokens, from rows that this rank gathered by chunk or set.
  const auto sum_all = [&](Stream& s, const Tensor& out) {
    combine.sum_collected_slots(s, out, weights_on_return, rows_of_addends(addends, 0, out.dim(0)));
  };
  // Computes T_O of this rank's own tokens.
  const auto sum_own = [&](Stream& s, const Tensor& out) {
    combine.sum_own_slots(s, out, weights_on_return, rows_of_addends(addends, routes.begin, routes.end));
  };
  Handoff<Tensor> all = routes.collection   ? add_sum(g, x, sum_all)
                        : times.sums_shares ? add_gathering(g, own_tokens, own, sum_own)
                                            : own;
  g.run(PassKind::forward);
  expert_weights.reset();  // frees memory before the shared experts gather their weights under ZeRO-3
  const Tensor slot_results = times.sums_chunks ? Tensor{} : combine.slot_rows().values;
  if (times.sums_in_pass()) return {all.take(), slot_results};

  // No task of the pass has summed slot rows. This is always the case if tp is 1 and the pass is not bounded.
  compute_shared(Times::Shared::after_pass);
  const Tensor out = Tensor::like(x);
  sum_own(stream, out);
  return {out, slot_results};
}

}  // namespace hexad::moe
