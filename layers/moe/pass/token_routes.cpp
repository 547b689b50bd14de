#include "layers/moe/pass/token_routes.h"

#include <algorithm>

#include "framework/kernels/kernel_table.h"
#include "layers/moe/schedule/memory_limit.h"
#include "parallel/comm/rows.h"
#include "parallel/ep/offsets.h"

namespace hexad::moe {

using device::Category;

namespace {

ep::PlanOptions plan_options(const MoeSchedule& s, int ep_ranks) {
  using By = ep::Chunking::By;
  ep::PlanOptions options{.esp_exchange = s.esp_exchange_used(),
                          .row_of = s.rows,
                          .merged = !s.is_chunked() && s.overlap != Overlap::sequential,
                          .all_to_all = s.all_to_all};
  options.chunking.chunks = static_cast<int>(s.chunks);
  const bool phases = s.duplicates == Duplicates::pause_after_gate && options.merged;  // Parm's SAA
  options.chunking.by = phases                           ? By::phases
                        : s.chunk_by == ChunkBy::experts ? By::experts
                        : s.chunk_by == ChunkBy::nodes   ? By::peers
                                                         : By::tokens;
  // A recipe for many ranks may be run by one.
  if (phases || s.chunk_by == ChunkBy::nodes) options.chunking.chunks = std::min(options.chunking.chunks, ep_ranks);
  return options;
}

// The order in which every tensor rank's rows come back is known here: all of them hold the same ids. Returns this
// rank's.
ep::SlotOrder collect(TokenRoutes& routes, const Tensor& ids, const ExpertRoute& route, const ep::PlanOptions& options,
                      Stream& stream) {
  const int ranks = route.tensor->size(), ep_ranks = route.groups.ep->size();
  const int64_t share = ids.dim(0) / ranks, chunks = options.chunking.chunks;
  std::vector<ep::SlotOrder> orders =
      ep::order_slots(ids, {route.experts, ep_ranks, options.chunking, options.row_of}, route.tensor_ep_ranks, stream);
  RowCollection rows{.group = route.tensor, .counts = {}};
  // By rank, for each chunk: where its rows end among its rank's, and what to add to find them among all.
  std::vector<int64_t> parts(static_cast<size_t>(ranks * 2 * chunks)), end(orders.size(), 0);
  int64_t all = 0;
  for (int64_t c = 0; c < chunks; ++c) {
    rows.counts.emplace_back();
    for (size_t q = 0; q < orders.size(); ++q) {
      const auto to =
          std::span(orders[q].rows_to).subspan(static_cast<size_t>(c * ep_ranks), static_cast<size_t>(ep_ranks));
      const size_t part = 2 * q * static_cast<size_t>(chunks) + static_cast<size_t>(c);
      parts[part + static_cast<size_t>(chunks)] = all - end[q];
      rows.counts.back().push_back(ep::sum_of(to));
      end[q] += rows.counts.back().back(), all += rows.counts.back().back();
      parts[part] = end[q];
    }
  }
  const Tensor table = Tensor::from<int64_t>(parts, {ranks, 2, chunks}, ids.device(), Category::communication);
  routes.collected_rows = Tensor::empty(ids.shape(), Dtype::i64, ids.device(), Category::communication);
  for (int q = 0; q < ranks; ++q)
    kernels::kernels(ids.device())
        .index.shift_parts(stream, routes.collected_rows.slice(0, q * share, (q + 1) * share),
                           orders[static_cast<size_t>(q)].rows, table.slice(0, q, q + 1).reshape({2, chunks}));
  routes.collection = std::move(rows);
  return std::move(orders[static_cast<size_t>(route.tensor->rank())]);
}

// Whether everything that such a schedule asks for can be planned where the ids are.
bool is_local(const MoeSchedule& s, const ExpertRoute& route, const ep::PlanOptions& options) {
  return route.groups.experts->size() == 1 && route.tensor->size() == 1 && options.chunking.chunks == 1 &&
         options.row_of == ep::RowOf::slot && !options.merged && s.memory_reuse == ReuseStrategy::none &&
         s.gemms == Gemms::grouped;
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
  TokenRoutes routes;
  routes.end = ids.dim(0);
  if (ids.device().runs_ahead() && is_local(schedule, route, options)) {
    routes.plan = ep::make_local_plan(ids, route.experts, stream);
    return routes;
  }
  if (alike && schedule.divides()) {
    const int64_t share = ids.dim(0) / route.tensor->size();
    routes.begin = route.tensor->rank() * share, routes.end = routes.begin + share;
    routes.plan = ep::make_routing_plan(collect(routes, ids, route, options, stream), route.groups, options, stream);
    return routes;
  }
  if (alike) routes.copies = route.copies();
  if (schedule.duplicates == Duplicates::baseline && route.groups.etp->size() > 1) routes.gatherers = route.groups.etp;
  const Tensor sent = routes.gatherers ? comm::all_gather_rows(ids, *routes.gatherers, stream) : ids;
  routes.plan = ep::make_routing_plan(sent, route.experts, route.groups, options, stream, routes.gatherers);
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
  finer.schedule.chunk_by = ChunkBy::tokens;
  while (true) {
    const int64_t bytes = most_of(buffer_bytes(routes.plan.counts, shape, route.schedule.memory_reuse, dtype));
    if (bytes <= limit || finer.schedule.chunks >= most_chunks) return routes;
    finer.schedule.chunks = std::min(most_chunks, more_chunks(finer.schedule.chunks, bytes, limit));
    routes = make_token_routes(ids, alike, finer, stream);
  }
}

std::vector<ChunkTokens> chunk_tokens(const TokenRoutes& routes, Stream& stream) {
  const int64_t tokens = routes.end - routes.begin;
  const ep::Chunking chunking{ep::Chunking::By::tokens, static_cast<int>(routes.plan.counts.chunks.size())};
  std::vector<ChunkTokens> all;
  int64_t begin = 0;
  for (int c = 0; c < chunking.chunks; ++c) {
    int64_t end = begin;
    while (end < tokens && chunking.chunk(end, tokens, 0, 1, 0, 1) == c) ++end;
    const Tensor of_all = routes.plan.indices.rows.slice(0, begin, end), rows = Tensor::like(of_all);
    kernels::kernels(rows.device())
        .index.shift(stream, rows, of_all, -routes.plan.counts.chunks[static_cast<size_t>(c)].slots_begin);
    all.push_back({begin, end, rows});
    begin = end;
  }
  return all;
}

}  // namespace hexad::moe
