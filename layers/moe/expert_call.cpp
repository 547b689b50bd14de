#include "layers/moe/expert_call.h"

#include "framework/schedule/executor.h"
#include "parallel/comm/rows.h"

namespace hexad::moe {

RoundTrip ExpertCall::trip(const Tensor& like) const {
  RoundTrip trip{.plan = routes.plan,
                 .groups = route.groups,
                 .overlap = route.schedule.overlap,
                 .wire = route.schedule.wire,
                 .width = like.dim(1),
                 .dtype = like.dtype(),
                 .device = like.device(),
                 .order = route.order};
  trip.flops_per_row = experts->flops_per_row();
  return trip;
}

void ExpertCall::run(RoundTrip& trip, std::string_view pass) const {
  const schedule::TaskGraph graph = make_round_trip(trip);
  if (!route.observer) return schedule::execute(graph, trip.device.context());
  std::vector<schedule::TaskTime> times;
  schedule::execute(graph, trip.device.context(), &times);
  route.observer->observe(cat(route.name, " ", pass), graph, times);
}

void ExpertCall::weight_gradients(Stream& s, size_t part) {
  const ExpertWork w = std::move(work[part]);
  experts->weight_gradients(s, w.rows, w.middle, w.gradients, w.doutput, offsets(part));
}

void BroughtTogether::by(RoundTrip& trip, const TokenRoutes& routes) {
  if (!routes.gatherers) return;
  const comm::ProcessGroup& group = *routes.gatherers;
  trip.bring = {.group = &group,
                .work = [this, own = rows, &group](Stream& s) { rows = comm::all_gather_rows(own, group, s); },
                .bytes = (group.size() - 1) * rows.bytes()};
}

}  // namespace hexad::moe
