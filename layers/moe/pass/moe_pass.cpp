#include "layers/moe/pass/moe_pass.h"

#include "framework/schedule/executor.h"
#include "layers/moe/pass/offload_recompute.h"
#include "layers/moe/pass/pass_call.h"
#include "layers/moe/pass/row_weights.h"
#include "layers/moe/schedule/memory_limit.h"
#include "parallel/comm/rows.h"

namespace hexad::moe {
namespace {

struct Result {
  Tensor out, returned;
};

Result forward(PassCall& call, const Tensor& x, const Tensor& weights, bool keep, Stream& stream) {
  const TokenRoutes& routes = call.routes;
  const auto& k = kernels::kernels(x.device()).permute;
  const ExpertWeights experts = call.hold_weights(stream, kernels::Direction::forward);
  BroughtTogether tokens{x.slice(0, routes.begin, routes.end)};
  MoePass trip = call.trip(x);
  tokens.by(trip, routes);
  const Tensor row_weights = call.weigh_results(trip, weights, stream);
  trip.pack = [&](Stream&, size_t c) {
    const ep::ChunkCounts& chunk = routes.plan.counts.chunks[c];
    return RowSource{.values = tokens.rows,
                     .index = chunk.of(routes.plan.indices.wire_tokens),
                     .extras = chunk.of(row_weights),
                     .rows = routes.plan.indices.chunks[c].offsets.defined() ? routes.plan.indices.rows : Tensor{}};
  };
  trip.compute = [&](Stream& s, size_t c, Rows rows, const Tensor&) {
    ExpertMiddle middle = experts.middle(s, rows.values, call.groups(c));
    Rows out{experts.output(s, middle, call.groups(c))};
    if (!keep) return out;
    ExpertWork& w = call.work[c];
    w.rows = std::move(rows.values), w.middle = std::move(middle);
    if (trip.weighs) w.results = out.values;
    return out;
  };
  if (routes.collection) trip.collection = &*routes.collection;
  call.take_shared(trip);
  call.run(trip, "forward");
  Result result{Tensor::like(x), std::move(trip.returned)};
  if (!call.computes()) return result;
  const Tensor unweighed = trip.weighs ? Tensor{} : weights;
  if (routes.collection)
    k.combine(stream, result.out, trip.collected, routes.collected_rows, unweighed, {});
  else
    k.combine(stream, result.out, result.returned, routes.own_rows(), unweighed, {});
  if (trip.weighs) result.returned = {};
  return result;
}

// dout of the tokens that this rank sends; of tokens that are computed several times, each computation's share of it.
Tensor shared_gradient(const TokenRoutes& routes, const Tensor& dout, Stream& stream) {
  const Tensor own = dout.slice(0, routes.begin, routes.end);
  if (routes.copies == 1) return own;
  const auto& k = kernels::kernels(dout.device()).pointwise;
  const Tensor share = Tensor::like(own);
  k.copy(stream, share, own);
  k.scale(stream, share, 1.0 / routes.copies);
  return share;
}

// Rows of slots: the gradient of each slot's result is sent, and the weights' is taken here, from what `returned`.
void send_slot_gradients(MoePass& trip, const BroughtTogether& dout, const Tensor& returned, const Tensor& weights,
                         const Tensor& dweights) {
  trip.pack = [&, dreturned = Tensor{}](Stream& s, size_t c) mutable {
    const ep::RoutingPlan& plan = trip.plan;
    if (!dreturned.defined()) {
      dreturned = Tensor::like(returned);
      kernels::kernels(trip.device)
          .permute.combine_backward(s, dreturned, dweights, dout.rows, returned, plan.indices.rows, weights);
    }
    const ep::ChunkCounts& chunk = plan.counts.chunks[c];
    if (plan.indices.wire_slots.defined())
      return RowSource{.values = dreturned, .index = chunk.of(plan.indices.wire_slots)};
    return RowSource{.values = chunk.of(dreturned)};
  };
}

// Rows of tokens: their gradients are sent as they are; the weights' are taken at the experts and return beside them.
void send_token_gradients(MoePass& trip, const BroughtTogether& dout, const Tensor& row_weights) {
  trip.extras_there = trip.extras_back = 1;
  trip.pack = [&](Stream&, size_t c) {
    const ep::ChunkCounts& chunk = trip.plan.counts.chunks[c];
    return RowSource{
        .values = dout.rows, .index = chunk.of(trip.plan.indices.wire_tokens), .extras = chunk.of(row_weights)};
  };
}

// Gradients of the sums to which `results` were weighed [R, 1] become those of the results; returns the weights'.
Tensor weigh_gradients(Stream& s, const Rows& gradients, const Tensor& results) {
  const auto& k = kernels::kernels(results.device());
  const Tensor dweights = Tensor::like(gradients.extras),
               own = Tensor::empty({results.dim(0)}, Dtype::i64, results.device());
  k.slots.iota(s, own, 0);
  k.permute.row_dots(s, dweights, gradients.values, results);
  k.permute.gather_weighted(s, gradients.values, gradients.values, own, gradients.extras);
  return dweights;
}

void backward(PassCall& call, const Tensor& dout, const Tensor& returned, const Tensor& weights, Backward& b) {
  Stream& stream = b.stream;
  const TokenRoutes& routes = call.routes;
  const auto& k = kernels::kernels(dout.device());
  const int64_t tokens = routes.end - routes.begin;
  const ExpertWeights experts = call.hold_weights(stream, kernels::Direction::backward);
  BroughtTogether gradients{shared_gradient(routes, dout, stream)};
  MoePass trip = call.trip(dout);
  gradients.by(trip, routes);
  const Tensor slot_weights = call.plan_weights(weights, stream),
               dweights = Tensor::zeros(slot_weights.shape(), slot_weights.dtype(), slot_weights.device());
  const bool of_tokens = routes.plan.counts.row_of == ep::RowOf::token;
  const Tensor row_weights = of_tokens ? wire_weights(stream, routes.plan, slot_weights) : Tensor{};
  if (of_tokens)
    send_token_gradients(trip, gradients, row_weights);
  else
    send_slot_gradients(trip, gradients, returned, slot_weights, dweights);
  trip.weight_products = call.experts->products();
  trip.products = {0, trip.weight_products, 0};
  trip.compute = [&](Stream& s, size_t c, Rows rows, const Tensor&) {
    ExpertWork& w = call.work[c];
    const Tensor numbers = of_tokens ? weigh_gradients(s, rows, std::exchange(w.results, {})) : Tensor{};
    w.gradients = experts.input_gradients(s, w.middle, rows.values, call.groups(c));
    w.doutput = std::move(rows.values);
    return Rows{std::exchange(w.gradients.rows, {}), numbers};
  };
  call.return_shared(trip, b);
  if (!b.weights_delayed()) trip.weights = [&call](Stream& s, size_t c) { call.weight_gradients(s, c); };
  call.run(trip, "backward");
  if (!call.computes()) {
    b.accumulate(0, dout), b.accumulate(1, weights);
    return;
  }
  if (of_tokens) put_by_slot(stream, dweights, trip.returned_extras, routes.plan.indices.row_slots);

  const Tensor own_dweights = dweights.slice(0, routes.gathered_begin(), routes.gathered_begin() + tokens);
  if (routes.copies > 1) k.pointwise.scale(stream, own_dweights, routes.copies);
  const Shape own_shape{tokens, dout.dim(1)};
  if (routes.copies == 1 && !routes.collection) {
    b.accumulate(0, own_shape, dout.dtype(), [&](const Tensor& dx, const Tensor& so_far) {
      const std::span<const Tensor> addends(&so_far, so_far.defined() ? 1 : 0);
      k.permute.combine(stream, dx, trip.returned, routes.own_rows(), {}, addends);
    });
    b.accumulate(1, own_dweights);
    return;
  }
  const Tensor dx = Tensor::empty(own_shape, dout.dtype(), dout.device());
  k.permute.combine(stream, dx, trip.returned, routes.own_rows(), {}, {});
  if (routes.copies > 1) k.pointwise.scale(stream, dx, routes.copies);
  const auto all = [&](const Tensor& own) {
    return routes.collection ? comm::all_gather_rows(own, *routes.collection->group, stream) : own;
  };
  b.accumulate(0, all(dx));
  b.accumulate(1, all(own_dweights));
}

Value route_keeping(Tape& tape, const Value& x, const Value& weights, std::shared_ptr<PassCall> call) {
  auto [out, returned] = forward(*call, x.data, weights.data, tape.recording(), tape.stream);
  std::vector<Tensor> saved{std::move(returned), weights.data};
  for (ExpertWork& w : call->work)
    for (Tensor* t : {&w.rows, &w.middle.gate, &w.middle.up, &w.middle.product, &w.results})
      saved.push_back(std::exchange(*t, {}));
  auto pullback = [call](Backward& b, const Tensor& dout, const Saved& s) {
    std::vector<Tensor> kept = s.all();
    for (size_t c = 0; c < call->work.size(); ++c) {
      const Tensor* t = &kept[2 + 5 * c];
      call->work[c] = {.rows = t[0], .middle = {t[1], t[2], t[3]}, .results = t[4], .gradients = {}, .doutput = {}};
    }
    const Tensor slots = kept[0], w = kept[1];
    kept.clear();
    backward(*call, dout, slots, w, b);
    if (!b.weights_delayed()) return;
    for (size_t c = 0; c < call->work.size(); ++c)
      b.defer("experts", [call, c, &stream = b.stream] { call->weight_gradients(stream, c); });
  };
  return tape.record("moe_pass", out, {x, weights}, saved, std::move(pullback), {call->experts->parameters(), {}});
}

}  // namespace

Value moe_pass(Tape& tape, const Value& x, const Value& weights, const Tensor& ids, bool alike, const Experts& experts,
               const ExpertRoute& route, SharedWork shared) {
  auto call = std::make_shared<PassCall>(
      make_limited_routes(ids, alike, route, experts.shape(), x.data.dtype(), tape.stream), route, experts);
  call->shared = std::move(shared);
  call->shared_begin = tape.size();
  // Evaluation keeps nothing, and a block that is computed again restores everything already.
  if (tape.mode() != Tape::Mode::record || route.schedule.restore == Restore::keep)
    return route_keeping(tape, x, weights, std::move(call));
  return route_restoring(tape, x, weights, std::move(call));
}

}  // namespace hexad::moe
