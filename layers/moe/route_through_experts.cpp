#include "layers/moe/route_through_experts.h"

#include "framework/schedule/executor.h"
#include "layers/moe/expert_call.h"
#include "layers/moe/restored_route.h"
#include "parallel/comm/rows.h"

namespace hexad::moe {
namespace {

struct Result {
  Tensor out, returned;
};

Result forward(ExpertCall& call, const Tensor& x, const Tensor& weights, bool keep, Stream& stream) {
  const TokenRoutes& routes = call.routes;
  const auto& k = kernels::kernels(x.device()).permute;
  BroughtTogether tokens{x.slice(0, routes.begin, routes.end)};
  RoundTrip trip = call.trip(x);
  tokens.by(trip, routes);
  trip.pack = [&](Stream&, size_t c) {
    return RowSource{.values = tokens.rows, .index = routes.plan.chunks[c].of(routes.plan.wire_tokens)};
  };
  trip.compute = [&](Stream& s, size_t c, Rows rows, const Tensor&) {
    ExpertMiddle middle = call.experts->middle(s, rows.values, call.offsets(c));
    Rows out{call.experts->output(s, middle, call.offsets(c))};
    if (keep) call.work[c].rows = std::move(rows.values), call.work[c].middle = std::move(middle);
    return out;
  };
  if (routes.collection) trip.collection = &*routes.collection;
  call.run(trip, "forward");
  Result result{Tensor::like(x), std::move(trip.returned)};
  if (routes.collection)
    k.combine(stream, result.out, trip.collected, routes.collected_rows, weights);
  else
    k.combine(stream, result.out, result.returned, routes.own_rows(), weights);
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

RouteGradients backward(ExpertCall& call, const Tensor& dout, const Tensor& returned, const Tensor& weights,
                        bool weights_at_once, Stream& stream) {
  const TokenRoutes& routes = call.routes;
  const auto& k = kernels::kernels(dout.device());
  const int64_t tokens = routes.end - routes.begin;
  BroughtTogether gradients{shared_gradient(routes, dout, stream)};
  RoundTrip trip = call.trip(dout);
  gradients.by(trip, routes);
  Tensor dreturned, dweights;
  const Tensor slot_weights = routes.gatherers ? comm::all_gather_rows(weights, *routes.gatherers, stream)
                                               : weights.slice(0, routes.begin, routes.end);
  trip.pack = [&](Stream& s, size_t c) {
    if (!dreturned.defined()) {
      dreturned = Tensor::like(returned), dweights = Tensor::like(slot_weights);
      k.permute.combine_backward(s, dreturned, dweights, gradients.rows, returned, routes.plan.rows, slot_weights);
    }
    const ep::Chunk& chunk = routes.plan.chunks[c];
    if (routes.plan.wire_slots.defined())
      return RowSource{.values = dreturned, .index = chunk.of(routes.plan.wire_slots)};
    return RowSource{.values = chunk.of(dreturned)};
  };
  trip.weight_flops_per_row = trip.flops_per_row;
  trip.compute = [&](Stream& s, size_t c, Rows rows, const Tensor&) {
    ExpertWork& w = call.work[c];
    w.gradients = call.experts->input_gradients(s, w.middle, rows.values, call.offsets(c));
    w.doutput = std::move(rows.values);
    return Rows{std::exchange(w.gradients.rows, {})};
  };
  if (weights_at_once) trip.weights = [&call](Stream& s, size_t c) { call.weight_gradients(s, c); };
  call.run(trip, "backward");

  const Tensor own_dweights = dweights.slice(0, routes.gathered_begin(), routes.gathered_begin() + tokens);
  const Tensor dx = Tensor::empty({tokens, dout.dim(1)}, dout.dtype(), dout.device());
  k.permute.combine(stream, dx, trip.returned, routes.own_rows(), {});
  if (routes.copies > 1)
    for (const Tensor& t : {dx, own_dweights}) k.pointwise.scale(stream, t, routes.copies);
  if (!routes.collection) return {dx, own_dweights};
  return {comm::all_gather_rows(dx, *routes.collection->group, stream),
          comm::all_gather_rows(own_dweights, *routes.collection->group, stream)};
}

Value route_keeping(Tape& tape, const Value& x, const Value& weights, std::shared_ptr<ExpertCall> call) {
  auto [out, returned] = forward(*call, x.data, weights.data, tape.recording(), tape.stream);
  std::vector<Tensor> saved{std::move(returned), weights.data};
  for (ExpertWork& w : call->work)
    for (Tensor* t : {&w.rows, &w.middle.gate, &w.middle.up, &w.middle.product}) saved.push_back(std::exchange(*t, {}));
  auto pullback = [call](Backward& b, const Tensor& dout, const Saved& s) {
    std::vector<Tensor> kept = s.all();
    for (size_t c = 0; c < call->work.size(); ++c) {
      const Tensor* t = &kept[2 + 4 * c];
      call->work[c] = {.rows = t[0], .middle = {t[1], t[2], t[3]}, .gradients = {}, .doutput = {}};
    }
    const Tensor slots = kept[0], w = kept[1];
    kept.clear();
    const RouteGradients g = backward(*call, dout, slots, w, !b.weights_delayed(), b.stream);
    b.accumulate(0, g.x);
    b.accumulate(1, g.weights);
    if (!b.weights_delayed()) return;
    for (size_t c = 0; c < call->work.size(); ++c)
      b.defer("experts", [call, c, &stream = b.stream] { call->weight_gradients(stream, c); });
  };
  return tape.record("route_through_experts", out, {x, weights}, saved, std::move(pullback),
                     {call->experts->parameters(), {}});
}

}  // namespace

Value route_through_experts(Tape& tape, const Value& x, const Value& weights, const Tensor& ids, bool alike,
                            const Experts& experts, const ExpertRoute& route) {
  auto call = std::make_shared<ExpertCall>(make_token_routes(ids, alike, route, tape.stream), route, experts);
  // Evaluation keeps nothing, and a block that is computed again restores everything already.
  if (tape.mode() != Tape::Mode::record || route.schedule.restore == Restore::keep)
    return route_keeping(tape, x, weights, std::move(call));
  return route_restoring(tape, x, weights, std::move(call));
}

}  // namespace hexad::moe
