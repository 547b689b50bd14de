// Pass for MPMoE's strategies S1 to S4, which do not keep the experts' inputs T_DI and activations T_M for backward.
// T_DI is offloaded (S1, S3) or sent again (S2, S4). T_M is offloaded (S1, S2) or recomputed (S3, S4). Chunks of tokens
// share two sets of buffers.
//
// The tape keeps the weights, and also x if T_DI is sent again. It does not keep the results of slots. The gradient of
// a slot's weight is the dot product of the slot's result and dout. Without a bias, this product equals the dot product
// of the activation's output and the gradient of this output. The rank of the slot's expert computes the product and
// returns it with the row.
#include <algorithm>
#include <utility>

#include "layers/moe/pass/forward.h"
#include "layers/moe/pass/pass_call.h"
#include "layers/moe/routes/token_rows.h"

namespace hexad::moe {

using namespace base;
namespace {

struct RestoringCall {
  PassCall call;
  std::vector<ChunkTokens> tokens;  // tokens of each chunk
  OffloadedActivations offloaded;
};

// Runs the pass `g` for tensor-parallel ranks that hold the same inputs. Once all chunks have returned, the ranks
// gather the gradients of their own tokens, `dx` and `dweights`. The tape then accumulates the gradients of all tokens.
void run_restored_for_sharers(PassGraph& g, const Tensor& dx, const Tensor& dweights, Backward& b) {
  Handoff<Tensor> own_dx, all_dx, own_dweights, all_dweights;
  own_dx.put(dx), own_dweights.put(dweights);
  add_share_gather(g, g.return_tasks(), "combine.all_gather", dx.bytes(), own_dx, all_dx);
  add_share_gather(g, g.return_tasks(), "combine.gather_weights", dweights.bytes(), own_dweights, all_dweights);
  g.run(PassKind::backward);
  b.accumulate(0, all_dx.take());
  b.accumulate(1, all_dweights.take());
}

// Runs the backward pass under memory reuse.
void backward_with_restored(RestoringCall& restoring, Backward& b, const Tensor& all_dout, const Tensor& all_x,
                            const Tensor& all_weights) {
  const PassCall& call = restoring.call;
  const Routes& routes = *call.routes;
  const Experts& experts = *call.experts;
  OffloadedActivations& offloaded = restoring.offloaded;
  const Tensor dout = gradient_per_copy(routes, all_dout, b.stream);
  const Tensor x = all_x.defined() ? routes.own_rows_of_result(all_x) : Tensor{},
               weights = routes.own_rows_of_result(all_weights);
  const auto& k = kernels_of(dout).permute;
  ExpertWeights expert_weights = experts.hold(b.stream, kernels::Direction::backward);
  const Tensor dx = Tensor::like(dout), dweights = Tensor::zeros(weights.shape(), weights.dtype(), weights.device());

  PassGraph g(routes, dout, Buffers::bounded);
  ShadowTasks shadows(g, experts);
  const TaskId shadows_received = shadows.add_broadcast(expert_weights);
  const auto combine_chunk = [&](Stream& s, size_t c, const Rows& slots) {
    const ChunkTokens& t = restoring.tokens[c];
    k.combine(s, dx.slice(0, t.begin, t.end), slots.values, t.rows, {}, {});
    const ep::ChunkCounts& counts = routes.counts(c);
    scatter_by_slot(s, dweights, slots.row_weights,
                    routes.plan.indices.row_slots.slice(0, counts.slots_begin, counts.slots_end));
  };
  Combine combine(g, {.row_weights = 1, .accept = combine_chunk});
  Dispatch dispatch(g, {.row_weights = 1});
  WireWeights row_weights(add_weight_gather(g, weights));
  Dispatch inputs(g, {.name = "inputs"});  // sends T_DI again; unused if T_DI was offloaded
  const int64_t products = experts.products();
  ExpertTasks expert_tasks(g, experts.flops_per_row(),
                           {offloaded.activations() ? 0 : products - 1, products, products});
  const std::vector<size_t> order = g.compute_order();
  std::vector<TaskId> inputs_fetched(routes.computations(), no_task), activations_fetched = inputs_fetched;
  const auto compute_chunk = [&](Stream& s, size_t c, const Rows& rows, Handoff<Rows> sent_again) {
    ChunkActivations made = offloaded.take(c);
    if (!offloaded.inputs()) made.inputs = sent_again.take().values;
    if (!made.activations.defined())
      made.activations = expert_weights.before_activation(s, made.inputs, routes.groups(c));
    auto [drows, drow_weights] =
        experts.backward_weighted(s, expert_weights, made.inputs, std::move(made.activations), rows.values,
                                  rows.row_weights, routes.groups(c), shadows.gradients());
    return Rows{drows, drow_weights.reshape({-1, 1})};
  };
  g.add_steps(
      {.dispatch =
           [&](size_t c) {
             const TaskId room = g.room_to_dispatch();
             if (!offloaded.inputs()) inputs.add(c, room, [&, c](Stream&) { return routes.sent_rows(c, x, {}); });
             dispatch.add(c, room,
                          [&, c](Stream& s) { return routes.sent_rows(c, dout, row_weights.get(s, routes.plan)); });
             // Fetches T_M before T_DI, because the experts read T_M first.
             if (c == order.front()) activations_fetched[c] = offloaded.add_activations_fetch(g, c, no_task);
             inputs_fetched[c] = offloaded.add_inputs_fetch(g, c);
           },
       .shared_experts = [&] { expert_tasks.add_shared(call.shared_backward(b)); },
       .compute =
           [&](size_t c) {
             const Arrived again = offloaded.inputs() ? Arrived{} : inputs.add_arrival(c);
             std::vector<TaskId> after = again.after;
             after.insert(after.end(), {activations_fetched[c], inputs_fetched[c], shadows_received});
             expert_tasks.add(c, dispatch.add_arrival(c), std::move(after),
                              [&, c, again](Stream& s, Rows rows) { return compute_chunk(s, c, rows, again.rows); });
             // If T_M was offloaded, chunks share one buffer for T_M, as in forward. T_M of the next chunk is
             // therefore fetched once this chunk is computed.
             const auto next = std::ranges::find(order, c) + 1;
             if (next != order.end())
               activations_fetched[*next] = offloaded.add_activations_fetch(g, *next, expert_tasks.computed(c).by);
           },
       .combine = [&](size_t c) { combine.add(c, expert_tasks.computed(c), dispatch.row_weights(c)); }});
  std::vector<TaskId> computed;
  for (size_t c = 0; c < routes.computations(); ++c) computed.push_back(expert_tasks.computed(c).by);
  shadows.add_reduction(std::move(computed));
  if (routes.inputs_alike) return run_restored_for_sharers(g, dx, dweights, b);
  g.run(PassKind::backward);
  if (routes.copies > 1) {
    const auto& pointwise = kernels_of(dout).pointwise;
    pointwise.scale(b.stream, dx, routes.copies);
    pointwise.scale(b.stream, dweights, routes.copies);
  }
  b.accumulate(0, dx);
  b.accumulate(1, dweights);
}

}  // namespace

Value restoring_pass(Tape& tape, const Value& x, const Value& weights, const PassCall& call,
                     const std::vector<Value>& addends, const SharedWork& shared) {
  const Routes& routes = *call.routes;
  require(!routes.gatherers,
          "[moe] cannot restore activations of tokens that ranks gather before dispatch; expected routes without "
          "gatherers");
  std::vector<ChunkTokens> tokens = routes.chunk_tokens(tape.stream);
  const size_t chunks = tokens.size();
  const auto restoring = std::make_shared<RestoringCall>(RestoringCall{
      call, std::move(tokens), OffloadedActivations(routes.settings.schedule.memory_reuse, *call.experts, chunks)});
  const ForwardResult result =
      forward(routes, *call.experts, x.data, weights.data,
              {.offloaded = &restoring->offloaded, .tokens = &restoring->tokens}, addends, shared, tape.stream);
  // Backward needs x only to send T_DI again.
  return call.record(tape, result.out, x, weights, addends,
                     autograd::save(restoring->offloaded.inputs() ? Tensor{} : x.data, weights.data),
                     [restoring](Backward& b, const Tensor& dout, const Saved& saved) {
                       const auto [kept_x, kept_weights] = saved.get<2>();
                       backward_with_restored(*restoring, b, dout, kept_x, kept_weights);
                     });
}

}  // namespace hexad::moe
