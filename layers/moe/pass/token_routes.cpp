#include "layers/moe/pass/token_routes.h"

#include <algorithm>

#include "framework/tensor/host_read.h"
#include "layers/moe/schedule/memory_limit.h"
#include "parallel/comm/rows.h"
#include "parallel/ep/offsets.h"
#include "parallel/ep/received.h"

namespace hexad::moe {
namespace {

ep::PlanOptions plan_options(const MoeSchedule& s, int ep_ranks) {
  using By = ep::Cutting::By;
  ep::PlanOptions options{.spread = s.spread_used(),
                          .row_of = s.rows,
                          .merged = !s.is_cut() && s.overlap != Overlap::sequential,
                          .all_to_all = s.all_to_all};
  options.cutting.chunks = static_cast<int>(s.parts);
  const bool phases = s.duplicates == Duplicates::pause_after_gate && options.merged;  // Parm's SAA
  options.cutting.by = phases                  ? By::phases
                       : s.cut == Cut::experts ? By::experts
                       : s.cut == Cut::nodes   ? By::peers
                                               : By::tokens;
  // A recipe for many ranks may be run by one.
  if (phases || s.cut == Cut::nodes) options.cutting.chunks = std::min(options.cutting.chunks, ep_ranks);
  return options;
}

// The order in which every tensor rank's rows come back is known here: all of them hold the same ids. Returns this
// rank's.
ep::SlotOrder collect(TokenRoutes& routes, const Tensor& ids, const ExpertRoute& route,
                      const ep::PlanOptions& options) {
  const int ranks = route.tensor->size(), ep_ranks = route.groups.ep->size();
  const int64_t share = ids.dim(0) / ranks, top_k = ids.dim(1);
  std::vector<ep::SlotOrder> orders;
  for (int q = 0; q < ranks; ++q)
    orders.push_back(ep::order_slots(ids.slice(0, q * share, (q + 1) * share), route.experts, options.cutting,
                                     route.tensor_ep_ranks[static_cast<size_t>(q)], ep_ranks, options.row_of));
  RowCollection rows{.group = route.tensor, .counts = {}};
  // By rank and chunk: what to add to a row's number among its rank's to find it among all.
  std::vector<std::vector<int64_t>> shift(static_cast<size_t>(ranks)), first(static_cast<size_t>(ranks));
  int64_t all = 0;
  for (int c = 0; c < options.cutting.chunks; ++c) {
    rows.counts.emplace_back();
    for (size_t q = 0; q < orders.size(); ++q) {
      const auto counts =
          std::span(orders[q].rows_to).subspan(static_cast<size_t>(c * ep_ranks), static_cast<size_t>(ep_ranks));
      const int64_t before = first[q].empty() ? 0 : first[q].back(), n = ep::sum_of(counts);
      shift[q].push_back(all - before);
      first[q].push_back(before + n);  // one past the chunk's last row
      rows.counts.back().push_back(n);
      all += n;
    }
  }
  routes.collected_rows = Tensor::empty(ids.shape(), Dtype::i64, ids.device(), Category::communication);
  int64_t* out = routes.collected_rows.data<int64_t>();
  for (size_t q = 0; q < orders.size(); ++q) {
    const int64_t* row = orders[q].rows.data<int64_t>();
    for (int64_t i = 0; i < share * top_k; ++i, ++out) {
      *out = row[i];
      if (row[i] < 0) continue;
      const auto c = std::upper_bound(first[q].begin(), first[q].end(), row[i]) - first[q].begin();
      *out += shift[q][static_cast<size_t>(c)];
    }
  }
  routes.collection = std::move(rows);
  return std::move(orders[static_cast<size_t>(route.tensor->rank())]);
}

// Whether everything that such a schedule asks for can be planned where the ids are.
bool is_local(const MoeSchedule& s, const ExpertRoute& route, const ep::PlanOptions& options) {
  return route.groups.experts->size() == 1 && route.tensor->size() == 1 && options.cutting.chunks == 1 &&
         options.row_of == ep::RowOf::slot && !options.merged && s.restore == Restore::keep &&
         s.products == Products::grouped;
}

}  // namespace

int ExpertRoute::copies() const {
  switch (schedule.duplicates) {
    case Duplicates::baseline:
      return tensor->size();
    case Duplicates::replicated:
      return tensor->size() / groups.etp->size();
    default:
      return 1;
  }
}

TokenRoutes make_token_routes(const Tensor& ids, bool alike, const ExpertRoute& route, Stream& stream) {
  const MoeSchedule& schedule = route.schedule;
  const ep::PlanOptions options = plan_options(schedule, route.groups.ep->size());
  const Device device = ids.device();
  TokenRoutes routes;
  routes.end = ids.dim(0);
  if (!device.on_host() && is_local(schedule, route, options)) {
    routes.plan = ep::make_local_plan(ids, route.experts, stream);
    return routes;
  }
  if (alike && schedule.divides()) {
    const int64_t share = ids.dim(0) / route.tensor->size();
    routes.begin = route.tensor->rank() * share, routes.end = routes.begin + share;
    const Tensor known = copy_to_host("routing: ids", ids, stream);
    routes.plan =
        ep::plan_on(ep::make_routing_plan(collect(routes, known, route, options), route.groups, options), device);
    routes.collected_rows = on_device(routes.collected_rows, device, Category::communication);
    return routes;
  }
  if (alike) routes.copies = route.copies();
  if (schedule.duplicates == Duplicates::baseline && route.groups.etp->size() > 1) routes.gatherers = route.groups.etp;
  const Tensor sent = routes.gatherers ? comm::all_gather_rows(ids, *routes.gatherers, stream) : ids;
  const Tensor known = copy_to_host("routing: ids", sent, stream);
  if (routes.gatherers) ep::check_gathered_ids(known, route.experts, *routes.gatherers);
  routes.plan = ep::plan_on(ep::make_routing_plan(known, route.experts, route.groups, options), device);
  return routes;
}

TokenRoutes make_limited_routes(const Tensor& ids, bool alike, const ExpertRoute& route, const ExpertShape& shape,
                                Dtype dtype, Stream& stream) {
  TokenRoutes routes = make_token_routes(ids, alike, route, stream);
  if (!route.schedule.memory_limit) return routes;
  const int64_t limit = *route.schedule.memory_limit;
  const auto most_of = [&](int64_t value) {
    const double most =
        route.groups.experts->all_reduce_value(static_cast<double>(value), comm::Reduce::max, ids.device());
    return static_cast<int64_t>(most);
  };
  const int64_t most_chunks = std::max<int64_t>(1, most_of(routes.end - routes.begin));
  ExpertRoute finer = route;
  finer.schedule.cut = Cut::tokens;
  while (true) {
    const int64_t bytes = most_of(buffer_bytes(routes.plan.counts, shape, route.schedule.restore, dtype));
    if (bytes <= limit || finer.schedule.parts >= most_chunks) return routes;
    finer.schedule.parts = std::min(most_chunks, more_chunks(finer.schedule.parts, bytes, limit));
    routes = make_token_routes(ids, alike, finer, stream);
  }
}

std::vector<ChunkTokens> chunk_tokens(const TokenRoutes& routes, Stream& stream) {
  const int64_t tokens = routes.end - routes.begin;
  const ep::Cutting cutting{ep::Cutting::By::tokens, static_cast<int>(routes.plan.counts.chunks.size())};
  std::vector<ChunkTokens> all;
  int64_t begin = 0;
  for (int c = 0; c < cutting.chunks; ++c) {
    int64_t end = begin;
    while (end < tokens && cutting.chunk(end, tokens, 0, 1, 0, 1) == c) ++end;
    const Tensor of_all = routes.plan.indices.rows.slice(0, begin, end), rows = Tensor::like(of_all);
    kernels::kernels(rows.device())
        .index.shift(stream, rows, of_all, -routes.plan.counts.chunks[static_cast<size_t>(c)].slots_begin);
    all.push_back({begin, end, rows});
    begin = end;
  }
  return all;
}

}  // namespace hexad::moe
