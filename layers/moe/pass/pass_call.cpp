#include "layers/moe/pass/pass_call.h"

#include "framework/schedule/executor.h"
#include "layers/moe/pass/row_weights.h"
#include "parallel/comm/rows.h"

namespace hexad::moe {

MoePass PassCall::trip(const Tensor& like) const {
  MoePass trip{.plan = routes.plan,
               .groups = route.groups,
               .overlap = route.schedule.overlap,
               .wire = route.schedule.wire,
               .width = like.dim(1),
               .dtype = like.dtype(),
               .device = like.device(),
               .compute_share = route.schedule.compute_share,
               .order = route.order};
  trip.flops_per_row = experts->flops_per_row();
  trip.products = {experts->products(), 0, 0};
  return trip;
}

Tensor PassCall::plan_weights(const Tensor& weights, Stream& s) const {
  return routes.gatherers ? comm::all_gather_rows(weights, *routes.gatherers, s)
                          : weights.slice(0, routes.begin, routes.end);
}

Tensor PassCall::weigh_results(MoePass& trip, const Tensor& weights, Stream& s) const {
  if (routes.plan.counts.row_of == ep::RowOf::slot) return {};
  trip.extras_there = 1;
  trip.weighs = true;
  return wire_weights(s, routes.plan, plan_weights(weights, s));
}

void PassCall::run(MoePass& trip, std::string_view pass) const {
  const schedule::TaskGraph graph = make_pass_graph(trip);
  if (route.runner)
    route.runner->run(cat(route.name, " ", pass), graph, trip.device.context());
  else
    schedule::execute(graph, trip.device.context());
}

void PassCall::take_shared(MoePass& forward) {
  forward.shared = shared;
  shared.compute = {};  // what it refers to lives as long as forward
}

void PassCall::return_shared(MoePass& backward, Backward& b) const {
  const int64_t products = shared.products.front();
  if (products == 0) return;
  backward.shared = {.compute = [&b, first = shared_begin] { b.replay_from(first); },
                     .flops = shared.flops,
                     .products = {0, products, b.weights_delayed() ? 0 : products}};
}

void PassCall::weight_gradients(Stream& s, size_t part) {
  const ExpertWork w = std::move(work[part]);
  experts->weight_gradients(s, w.rows, w.middle, w.gradients, w.doutput, groups(part));
}

void BroughtTogether::by(MoePass& trip, const TokenRoutes& routes) {
  if (!routes.gatherers) return;
  const comm::ProcessGroup& group = *routes.gatherers;
  trip.bring = {.group = &group,
                .work = [this, own = rows, &group](Stream& s) { rows = comm::all_gather_rows(own, group, s); },
                .bytes = (group.size() - 1) * rows.bytes()};
}

}  // namespace hexad::moe
