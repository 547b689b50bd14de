#include "layers/moe/pass/forward.h"

#include <utility>

#include "parallel/comm/gathered_rows.h"

namespace hexad::moe {

ForwardResult forward(const Routes& routes, const Experts& experts, const Tensor& x, const Tensor& weights,
                      const ForwardKeeps& keeps, SharedWork shared, Stream& stream) {
  const bool bounded = keeps.offloaded != nullptr, of_tokens = routes.of_tokens();
  const auto& k = kernels::kernels(x.device()).permute;
  const ExpertWeights held = hold_weights(routes, experts, kernels::Direction::forward, stream);
  Tensor tokens = routes.mine(x);
  const bool gathers_shares = routes.sharers && !routes.collection;
  Slot<Tensor> own, all;  // results: of [begin, end) of the tokens, of all
  if (bounded) own.put(Tensor::like(tokens));
  const Tensor row_weights =
      of_tokens ? wire_weights(stream, routes.plan, routes.plan_weights(weights, stream)) : Tensor{};
  const Tensor unweighed = of_tokens ? Tensor{} : weights;  // rows of tokens return as weighed sums

  PassGraph g(routes, x, bounded);
  add_token_gather(g, tokens);
  const auto combine_chunk = [&](Stream& s, size_t c, const Rows& slots) {
    const ChunkTokens& t = (*keeps.tokens)[c];
    const Tensor of_chunk = unweighed.defined() ? unweighed.slice(0, t.begin, t.end) : Tensor{};
    k.combine(s, own.read().slice(0, t.begin, t.end), slots.values, t.rows, of_chunk, {});
  };
  Combine combine(g, {.collection = routes.collection ? &*routes.collection : nullptr, .accept = combine_chunk});
  Dispatch dispatch(g, {.row_weights = of_tokens ? 1 : 0, .keeps_weights = of_tokens});
  ExpertTasks compute(g, experts.flops_per_row(), {experts.products(), 0, 0});
  const auto compute_chunk = [&](Stream& s, size_t c, Rows rows) {
    ExpertActivations activations = held.activations(s, rows.values, routes.groups(c));
    Rows results{held.output(s, activations, routes.groups(c))};
    // Rows of slots return as they are; those of tokens only in sums.
    ChunkActivations made{.inputs = std::move(rows.values),
                          .activations = std::move(activations),
                          .results = of_tokens ? results.values : Tensor{}};
    if (keeps.offloaded)
      keeps.offloaded->put(c, std::move(made));
    else if (keeps.all)
      (*keeps.all)[c] = std::move(made);
    return results;
  };
  g.add_steps({.dispatch =
                   [&](size_t c) {
                     dispatch.add(c, g.room_to_dispatch(),
                                  [&, c](Stream&) { return routes.token_rows(c, tokens, row_weights); });
                   },
               .beside = [&] { compute.add_shared(std::move(shared)); },
               .compute =
                   [&](size_t c) {
                     compute.add(c, dispatch.arrive(c), {},
                                 [&, c](Stream& s, Rows rows) { return compute_chunk(s, c, std::move(rows)); });
                     if (keeps.offloaded) keeps.offloaded->add_offload(g, c, compute.computed(c).by);
                   },
               .combine = [&](size_t c) { combine.add(c, compute.computed(c), dispatch.row_weights(c)); }});
  const auto combine_own = [&](Stream& s, const Tensor& out) {
    const Tensor of_own = unweighed.defined() ? routes.mine(unweighed) : Tensor{};
    k.combine(s, out, combine.slot_rows().values, routes.own_rows(), of_own, {});
  };
  if (gathers_shares) {
    std::vector<TaskId> after = g.returned();
    if (!bounded)
      after = {add_token_combine(g, Lane::compute, [&](Stream& s) {
        own.put(Tensor::like(tokens));
        combine_own(s, own.read());
      })};
    add_share_gather(g, std::move(after), "combine.all_gather", tokens.bytes(), own, all);
  }
  g.run("forward");
  const Tensor returned = bounded ? Tensor{} : combine.slot_rows().values;
  if (gathers_shares && !routes.computes()) return {gathered_shares(*routes.sharers, tokens), returned};
  if (gathers_shares) return {all.take(), returned};
  if (bounded) return {own.take(), returned};
  const Tensor out = Tensor::like(x);
  if (!routes.computes()) return {out, returned};
  if (routes.collection)
    k.combine(stream, out, combine.collected(), routes.collection->rows, unweighed, {});
  else
    combine_own(stream, out);
  return {out, returned};
}

ExpertWeights hold_weights(const Routes& routes, const Experts& experts, kernels::Direction direction, Stream& s) {
  return routes.computes() ? experts.hold(s, direction) : ExpertWeights{};
}

void add_token_gather(PassGraph& g, Tensor& tokens) {
  const comm::ProcessGroup* group = g.routes.gatherers;
  if (!group) return;
  const int64_t sent = (group->size() - 1) * (g.routes.end - g.routes.begin) * g.row_bytes();
  g.run_first(g.add({}, Lane::intra, TaskKind::all_gather, "dispatch.tokens",
                    PassGraph::transfer(*group, "etp", sent, sent),
                    on_lane([&tokens, group](Stream& s) { tokens = comm::all_gather_rows(tokens, *group, s); })));
}

}  // namespace hexad::moe
