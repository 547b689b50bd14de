#include "layers/moe/pass/offload_recompute.h"

#include <algorithm>

#include "layers/moe/pass/row_weights.h"

namespace hexad::moe {
namespace {

// In offload memory; null: nothing. The middle without its product, which is cheaper to compute than to move.
struct Away {
  std::shared_ptr<SavedTensor> rows, gate, up;
};

// One chunk's tokens among the op's, and the rows [tokens, K] of their slots among the chunk's.
struct ChunkTokens {
  int64_t begin, end;
  Tensor rows;
};

struct RouteGradients {
  Tensor x, weights;
};

struct Restored {
  std::shared_ptr<PassCall> call;
  std::vector<ChunkTokens> tokens;
  std::vector<Away> away;
  std::unique_ptr<SavePolicy> offload = offload_policy(0);

  bool offloads_inputs() const { return moe::offloads_inputs(schedule()); }
  bool offloads_middles() const { return moe::offloads_middles(schedule()); }
  Restore schedule() const { return call->route.schedule.restore; }
};

std::vector<ChunkTokens> tokens_of(const TokenRoutes& routes) {
  const int64_t tokens = routes.end - routes.begin, top_k = routes.plan.indices.rows.dim(1);
  const ep::Cutting cutting{ep::Cutting::By::tokens, static_cast<int>(routes.plan.counts.chunks.size())};
  std::vector<ChunkTokens> all;
  int64_t begin = 0;
  for (int c = 0; c < cutting.chunks; ++c) {
    int64_t end = begin;
    while (end < tokens && cutting.chunk(end, tokens, 0, 1, 0, 1) == c) ++end;
    const Tensor rows = Tensor::empty({end - begin, top_k}, Dtype::i64, routes.plan.indices.rows.device());
    const int64_t first = routes.plan.counts.chunks[static_cast<size_t>(c)].slots_begin;
    const int64_t* from = routes.plan.indices.rows.data<int64_t>() + begin * top_k;
    std::transform(from, from + rows.numel(), rows.data<int64_t>(),
                   [&](int64_t row) { return row < 0 ? row : row - first; });
    all.push_back({begin, end, rows});
    begin = end;
  }
  return all;
}

int64_t aside_bytes(const Restored& r, int64_t width, Dtype dtype) {
  const int64_t middle = r.call->experts->middle_width();
  return ((r.offloads_inputs() ? width : 0) + (r.offloads_middles() ? middle : 0)) * size_of(dtype);
}

MoePass trip_of(const PassCall& call, const Tensor& like) {
  MoePass trip = call.trip(like);
  trip.bounded = true;
  return trip;
}

Tensor forward(Restored& r, const Tensor& x, const Tensor& weights, Stream& stream) {
  PassCall& call = *r.call;
  const ep::RoutingPlan& plan = call.routes.plan;
  const auto& k = kernels::kernels(x.device()).permute;
  const ExpertWeights experts = call.hold_weights(stream, kernels::Direction::forward);
  const Tensor out = Tensor::like(x);
  MoePass trip = trip_of(call, x);
  const Tensor row_weights = call.weigh_results(trip, weights, stream);
  trip.pack = [&](Stream&, size_t c) {
    const ep::ChunkCounts& chunk = plan.counts.chunks[c];
    return RowSource{.values = x, .index = chunk.of(plan.indices.wire_tokens), .extras = chunk.of(row_weights)};
  };
  std::vector<ExpertWork>& work = call.work;
  trip.compute = [&](Stream& s, size_t c, Rows rows, const Tensor&) {
    ExpertMiddle middle = experts.middle(s, rows.values, call.groups(c));
    Rows results{experts.output(s, middle, call.groups(c))};
    middle.product = {};
    if (r.offloads_inputs()) work[c].rows = std::move(rows.values);
    if (r.offloads_middles()) work[c].middle = std::move(middle);
    return results;
  };
  if (r.offloads_inputs() || r.offloads_middles()) {
    trip.aside_bytes_per_row = aside_bytes(r, x.dim(1), x.dtype());
    trip.offload = [&](Stream& s, size_t c) {
      const ExpertWork w = std::move(work[c]);
      const auto save = [&](const Tensor& t) { return t.defined() ? r.offload->save(t, s) : nullptr; };
      r.away[c] = {save(w.rows), save(w.middle.gate), save(w.middle.up)};
    };
  }
  trip.accept = [&](Stream& s, size_t c, Rows slots) {
    const ChunkTokens& t = r.tokens[c];
    const Tensor unweighed = trip.weighs ? Tensor{} : weights.slice(0, t.begin, t.end);
    k.combine(s, out.slice(0, t.begin, t.end), slots.values, t.rows, unweighed, {});
  };
  call.take_shared(trip);
  call.run(trip, "forward");
  return out;
}

RouteGradients backward(Restored& r, const Tensor& dout, const Tensor& x, const Tensor& weights, Backward& b) {
  PassCall& call = *r.call;
  const ep::RoutingPlan& plan = call.routes.plan;
  const auto& k = kernels::kernels(dout.device()).permute;
  const ExpertWeights experts = call.hold_weights(b.stream, kernels::Direction::backward);
  const Tensor row_weights = wire_weights(b.stream, plan, weights);
  RouteGradients g{Tensor::like(dout), Tensor::zeros(weights.shape(), weights.dtype(), weights.device())};
  MoePass trip = trip_of(call, dout);
  trip.extras_there = trip.extras_back = 1;
  const int64_t products = call.experts->products();
  trip.products = {r.offloads_middles() ? 0 : products - 1, products, products};
  trip.pack = [&](Stream&, size_t c) {
    const ep::ChunkCounts& chunk = plan.counts.chunks[c];
    return RowSource{.values = dout, .index = chunk.of(plan.indices.wire_tokens), .extras = chunk.of(row_weights)};
  };
  if (!r.offloads_inputs())
    trip.pack_again = [&](Stream&, size_t c) {
      return RowSource{.values = x, .index = plan.counts.chunks[c].of(plan.indices.wire_tokens)};
    };
  std::vector<ExpertWork>& work = call.work;
  if (r.offloads_inputs() || r.offloads_middles()) {
    trip.aside_bytes_per_row = aside_bytes(r, x.dim(1), x.dtype());
    trip.fetch = [&](Stream& s, size_t c) {
      const Away away = std::move(r.away[c]);
      const auto back = [&](const auto& saved) { return saved ? saved->get(s) : Tensor{}; };
      work[c].rows = back(away.rows);
      work[c].middle.gate = back(away.gate), work[c].middle.up = back(away.up);
    };
  }
  trip.compute = [&](Stream& s, size_t c, Rows rows, const Tensor& again) {
    ExpertWork w = std::move(work[c]);
    work[c] = {};
    if (again.defined()) w.rows = again;
    if (!w.middle.defined()) w.middle = experts.before_activation(s, w.rows, call.groups(c));
    auto [drows, dweights] = call.experts->backward_weighted(s, experts, w.rows, std::move(w.middle), rows.values,
                                                             rows.extras, call.groups(c));
    return Rows{drows, dweights.reshape({-1, 1})};
  };
  trip.accept = [&](Stream& s, size_t c, Rows slots) {
    const ChunkTokens& t = r.tokens[c];
    k.combine(s, g.x.slice(0, t.begin, t.end), slots.values, t.rows, {}, {});
    const ep::ChunkCounts& chunk = plan.counts.chunks[c];
    put_by_slot(s, g.weights, slots.extras, plan.indices.row_slots.slice(0, chunk.slots_begin, chunk.slots_end));
  };
  call.return_shared(trip, b);
  call.run(trip, "backward");
  return g;
}

}  // namespace

Value route_restoring(Tape& tape, const Value& x, const Value& weights, std::shared_ptr<PassCall> call) {
  auto r = std::make_shared<Restored>();
  r->call = std::move(call);
  r->tokens = tokens_of(r->call->routes);
  r->away.resize(r->tokens.size());
  const Tensor out = forward(*r, x.data, weights.data, tape.stream);
  // Offloaded inputs make x itself dispensable.
  const Tensor again = r->offloads_inputs() ? Tensor{} : x.data;
  return tape.record("moe_pass", out, {x, weights}, save(again, weights.data),
                     [r](Backward& b, const Tensor& dout, const Saved& s) {
                       auto [from, w] = s.get<2>();
                       const RouteGradients g = backward(*r, dout, from.defined() ? from : dout, w, b);
                       b.accumulate(0, g.x);
                       b.accumulate(1, g.weights);
                     },
                     {r->call->experts->parameters(), {}});
}

}  // namespace hexad::moe
