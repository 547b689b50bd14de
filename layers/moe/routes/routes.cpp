#include "layers/moe/routes/routes.h"

#include <algorithm>

#include "framework/kernels/kernel_table.h"
#include "framework/tensor/host_read.h"
#include "layers/moe/schedule/memory_limit.h"
#include "parallel/comm/gathered_rows.h"
#include "parallel/ep/offsets.h"
#include "parallel/ep/received.h"
#include "parallel/ep/received_counts.h"

namespace hexad::moe {

int PassSettings::copies() const {
  switch (schedule.duplicates) {
    case Duplicates::baseline:
      return tensor->size();
    case Duplicates::replicated:
      return tensor->size() / groups.etp->size();
    default:
      return 1;
  }
}

RowGroups Routes::groups(size_t chunk) const {
  const Tensor& on_device = plan.indices.chunks[chunk].offsets;
  const std::vector<int64_t>& offsets = counts(chunk).offsets;
  RowGroups groups{.computations = static_cast<int64_t>(computations())};
  if (on_device.defined()) {
    groups.rows = {
        .groups = on_device.dim(0) - 1, .max_rows = counts(chunk).rows_computed(), .host = {}, .device = on_device};
  } else {
    groups.rows = kernels::GroupOffsets::on_host(counts(chunk).own_offsets());
    groups.dense = settings.schedule.is_dense(offsets);
    if (plan.counts.hot.any()) groups.shadows = kernels::GroupOffsets::on_host(counts(chunk).shadow_offsets);
  }
  if (!groups.dense && !groups.has_shadows()) {
    groups.forward = settings.fused(kernels::Direction::forward);
    groups.backward = settings.fused(kernels::Direction::backward);
  }
  return groups;
}

RowSource Routes::sent_rows(size_t chunk, const Tensor& tokens, const Tensor& row_weights) const {
  return {.values = tokens,
          .index = counts(chunk).part_of(plan.indices.wire_tokens),
          .row_weights = counts(chunk).part_of(row_weights),
          .inverse = is_local() && plan.counts.chunks.size() == 1 ? plan.indices.rows : Tensor{}};
}

RowSource Routes::sent_slots(size_t chunk, const Tensor& slot_rows) const {
  const Tensor& wire_slots = plan.indices.wire_slots;
  if (!wire_slots.defined()) return {.values = counts(chunk).part_of(slot_rows)};
  return {.values = slot_rows, .index = counts(chunk).part_of(wire_slots)};
}

Tensor Routes::tokens_of_slot_rows() const {
  const bool known = !plan.indices.wire_slots.defined() && settings.padded_capacity() == 0;
  return known ? plan.indices.wire_tokens : Tensor{};
}

std::vector<ChunkTokens> Routes::chunk_tokens(Stream& stream) const {
  const int64_t tokens = end - begin;
  const ep::Chunking chunking{ep::Chunking::By::tokens, static_cast<int>(plan.counts.chunks.size())};
  std::vector<ChunkTokens> all;
  int64_t from = 0;
  for (int c = 0; c < chunking.chunks; ++c) {
    int64_t to = from;
    while (to < tokens && chunking.chunk(to, tokens, 0, 1, 0, 1) == c) ++to;
    const Tensor of_all = plan.indices.rows.slice(0, from, to), rows = Tensor::like(of_all);
    kernels_of(rows).index.shift(stream, rows, of_all, -counts(c).slots_begin);
    all.push_back({from, to, rows});
    from = to;
  }
  return all;
}

namespace {

// True if ep ranks get copies of the hot experts of other ranks.
bool shadows(const PassSettings& settings) { return settings.schedule.shadows() && settings.groups.ep->size() > 1; }

// Returns the conditions for a hot expert: a minimum load and, if the recipe does not set this load, a minimum number
// of rows. With this number, the rows are at least as large as the expert's weights, which are sent instead of the
// rows. A row has D elements. The weights have 3 * D * F elements, or 2 * D * F for GELU experts.
ep::HotRule hot_rule(const MoeSchedule& s, const ExpertShape& shape) {
  if (s.hot_load) return {.least_load = *s.hot_load};
  return {.least_load = MoeSchedule::usual_hot_load, .least_rows = (shape.gated ? 3 : 2) * shape.width};
}

// Returns the hot experts; none if shadows(settings) is false. `sent` are the ids of the slots that this rank sends.
// The ids were gathered from the ranks of `senders`, and are checked, if `senders` is not null. Collective over
// ExpertGroups::sources() if shadows(settings) is true.
ep::HotExperts hot_experts(const Tensor& sent, const comm::ProcessGroup* senders, const PassSettings& settings,
                           const ExpertShape& shape, Stream& stream) {
  if (!shadows(settings)) return {};
  const tensor::HostRead read = tensor::read_to_host("routing: ids", sent, stream);
  const Tensor& known = read.tensor();
  if (senders) ep::check_gathered_ids(known, settings.experts, *senders);
  return ep::agree_on_hot_experts(known, settings.experts, settings.groups.ep->size(),
                                  hot_rule(settings.schedule, shape),
                                  settings.groups.sources(settings.schedule.esp_exchange_used()));
}

// Returns the order of the slots of ep rank `rank`. `hot` are the hot experts of its ep group.
ep::SlotOrder order_with(const ep::HotExperts& hot, const Tensor& ids, ep::Ordering ordering, int rank,
                         Stream& stream) {
  if (!hot.any()) return ep::order_slots(ids, ordering, rank, stream);
  base::require(ordering.capacity == 0,
                "[moe] rows are padded up to the capacity of experts, but the number of hot experts is ", hot.count(),
                "; expected no padding, or 0 hot experts");
  ordering.experts = hot.numbers(ordering.experts);
  ordering.senders = nullptr;  // hot_experts() has already checked the ids of the senders
  return ep::order_slots(ep::renumbered(ids, hot, std::span(&rank, 1), stream), ordering, rank, stream);
}

// Returns the orders of the slots of all tensor-parallel ranks. `hot` are the hot experts of this rank's ep group. The
// other ranks may belong to other ep groups, with other hot experts. The ranks therefore exchange their hot experts if
// the schedule has shadows.
std::vector<ep::SlotOrder> orders_of_sharers(const PassSettings& settings, const Tensor& ids, const ep::HotExperts& hot,
                                             const ep::Ordering& ordering, Stream& stream) {
  if (!shadows(settings)) return ep::order_slots(ids, ordering, settings.tensor_ep_ranks, stream);
  const int64_t most = settings.experts / ordering.ranks, ranks = settings.tensor->size(), share = ids.dim(0) / ranks;
  std::vector<int64_t> mine = hot.list();
  mine.resize(most, -1);
  const std::vector<int64_t> all = settings.tensor->all_gather_values(mine, ids.device());
  std::vector<ep::SlotOrder> orders;
  for (int64_t q = 0; q < ranks; ++q) {
    const auto of_rank = std::span(all).subspan(q * most, most);
    const std::vector<int64_t> list(of_rank.begin(), std::ranges::find(of_rank, -1));
    orders.push_back(order_with(ep::HotExperts(list, settings.experts, ordering.ranks),
                                ids.slice(0, q * share, (q + 1) * share), ordering, settings.tensor_ep_ranks[q],
                                stream));
  }
  return orders;
}

// Returns the order in which the rows of a routing plan with these options return.
ep::ReturnOrder return_order(const PassSettings& settings, const ep::RoutingOptions& options) {
  const bool esp_direct = options.esp_exchange == ep::EspExchange::direct;
  return {settings.groups.ep->node_of_rank(), esp_direct ? settings.groups.etp->size() : 1, options.return_phases};
}

// Sets routes.collection from the slot orders of all tensor-parallel ranks. This rank can compute all orders, because
// all tensor-parallel ranks hold the same ids. The ranks gather rows chunk by chunk or, if rows return in phases, set
// by set. Returns the slot order of this rank.
ep::SlotOrder collect(Routes& routes, const Tensor& ids, const ep::RoutingOptions& options, Stream& stream) {
  const PassSettings& settings = routes.settings;
  const int ranks = settings.tensor->size(), ep_ranks = settings.groups.ep->size();
  const int64_t share = ids.dim(0) / ranks;
  std::vector<ep::SlotOrder> orders = orders_of_sharers(
      settings, ids, options.hot,
      {settings.experts, ep_ranks, options.chunking, options.row_of, nullptr, nullptr, settings.padded_capacity()},
      stream);
  const ep::ReturnOrder returns = return_order(settings, options);
  // A part contains the rows that one tensor-parallel rank sends to one ep rank in one chunk. Returns the index of the
  // all-gather that contains part `part` of tensor-parallel rank q.
  const auto gathering = [&](int q, int part) {
    return returns.sets() > 1 ? returns.set(settings.tensor_ep_ranks[q], part % ep_ranks) : part / ep_ranks;
  };
  const int gatherings = std::max(options.chunking.chunks, returns.sets()), parts = options.chunking.chunks * ep_ranks;
  RowCollection rows{.group = settings.tensor,
                     .counts = {},
                     .rows = Tensor::empty(ids.shape(), Dtype::i64, ids.device(), Category::communication)};
  // Two numbers for each rank and part: the end of the part among the rank's rows, and an offset. The index of a row on
  // the rank plus the offset is the index of the row among the gathered rows.
  std::vector<int64_t> ends_and_offsets(ranks * 2 * parts);
  int64_t all = 0;
  for (int g = 0; g < gatherings; ++g) {
    rows.counts.emplace_back();
    for (int q = 0; q < ranks; ++q) {
      int64_t begin = 0, count = 0;
      for (int part = 0; part < parts; ++part) {
        const int64_t in_part = orders[q].rows_from()[part], end = begin + in_part;
        if (gathering(q, part) == g) {
          ends_and_offsets[2 * q * parts + part] = end;
          ends_and_offsets[(2 * q + 1) * parts + part] = all + count - begin;
          count += in_part;
        }
        begin = end;
      }
      rows.counts.back().push_back(count);
      all += count;
    }
  }
  const Tensor table =
      Tensor::from<int64_t>(ends_and_offsets, {ranks, 2, parts}, ids.device(), Category::communication);
  for (int q = 0; q < ranks; ++q)
    kernels_of(ids).index.shift_parts(stream, rows.rows.slice(0, q * share, (q + 1) * share), orders[q].rows,
                                      table.slice(0, q, q + 1).reshape({2, parts}));
  routes.collection = std::move(rows);
  return std::move(orders[settings.tensor->rank()]);
}

// True if the routing plan can be made on the device of the ids, without communication and without counts on the host.
// The host needs counts for:
// - chunks of experts, whose numbers of rows depend on the routing
// - chunks that are computed together
// - rows of tokens
// - matrix products that are separate for each expert
// - blocks of rows in which Experts::backward_weighted() computes under memory reuse
bool can_be_local(const PassSettings& settings, const ep::RoutingOptions& options) {
  const bool known_sizes = options.chunking.by == ep::Chunking::By::tokens || options.chunking.chunks == 1;
  return settings.groups.experts->size() == 1 && settings.tensor->size() == 1 && known_sizes &&
         options.row_of == ep::RowOf::slot && !options.merged &&
         settings.schedule.memory_reuse == ReuseStrategy::none && settings.schedule.gemms == Gemms::grouped;
}

ep::RoutingOptions routing_options(const MoeSchedule& s, int ep_ranks, int64_t row_bytes) {
  using By = ep::Chunking::By;
  ep::RoutingOptions options{.esp_exchange = s.esp_exchange_used(),
                             .row_of = s.rows,
                             .merged = !s.is_chunked() && s.overlaps_collectives() && !s.returns_in_phases(),
                             .all_to_all = s.all_to_all,
                             .row_bytes = row_bytes};
  if (s.returns_in_phases()) {
    options.return_phases = static_cast<int>(s.chunks);
    return options;
  }
  options.chunking.chunks = static_cast<int>(s.chunks);
  options.chunking.by = s.chunk_by == ChunkBy::experts ? By::experts
                        : s.chunk_by == ChunkBy::nodes ? By::peers
                                                       : By::tokens;
  // Limits the number of chunks, because a recipe for many ranks may run on fewer ranks, which have fewer peers.
  if (s.chunk_by == ChunkBy::nodes) options.chunking.chunks = std::min(options.chunking.chunks, ep_ranks);
  return options;
}

// Makes the routes with the number of chunks that `settings` contains. `dtype` is the dtype of the rows.
Routes routes_in_chunks(const Tensor& ids, Held held, const PassSettings& settings, const ExpertShape& shape,
                        Dtype dtype, Stream& stream) {
  const MoeSchedule& schedule = settings.schedule;
  const int ep_ranks = settings.groups.ep->size();
  ep::RoutingOptions options = routing_options(schedule, ep_ranks, shape.hidden * size_of(dtype));
  Routes routes{.settings = settings};
  routes.end = ids.dim(0);
  if (ids.device().runs_ahead() && can_be_local(settings, options)) {
    routes.plan = ep::make_local_routing_plan(ids, settings.experts, options.chunking.chunks, stream);
    return routes;
  }
  const int64_t ranks = settings.tensor->size(), rank = settings.tensor->rank();
  if (held == Held::share) {
    routes.sharers = settings.tensor;
    routes.begin = rank * ids.dim(0), routes.end = routes.begin + ids.dim(0);
  } else if (held == Held::alike && schedule.divides()) {
    const int64_t share = ids.dim(0) / ranks;
    routes.sharers = settings.tensor;
    routes.inputs_alike = true;
    routes.begin = rank * share, routes.end = routes.begin + share;
    // Without memory reuse, the ranks gather the rows that return in each chunk or set. With memory reuse, each rank
    // sums the rows of a chunk when they return, and the ranks gather the sums of all tokens.
    const bool collects = schedule.memory_reuse == ReuseStrategy::none;
    if (collects && (options.chunking.chunks > 1 || return_order(settings, options).sets() > 1)) {
      options.hot = hot_experts(routes.own_rows_of_result(ids), nullptr, settings, shape, stream);
      routes.plan = ep::make_routing_plan(collect(routes, ids, options, stream), settings.groups, options, stream);
      return routes;
    }
  } else if (held == Held::alike) {
    routes.copies = settings.copies();
  }
  if (schedule.duplicates == Duplicates::baseline && settings.groups.etp->size() > 1)
    routes.gatherers = settings.groups.etp;
  const Tensor sent =
      routes.gatherers ? comm::all_gather_rows(ids, *routes.gatherers, stream) : routes.own_rows_of_result(ids);
  options.hot = hot_experts(sent, routes.gatherers, settings, shape, stream);
  const ep::SlotOrder order =
      order_with(options.hot, sent,
                 {settings.experts, ep_ranks, options.chunking, options.row_of, routes.gatherers,
                  ep::counting_group(settings.groups, options), settings.padded_capacity()},
                 settings.groups.ep->rank(), stream);
  routes.plan = ep::make_routing_plan(order, settings.groups, options, stream);
  return routes;
}

}  // namespace

Routes make_routes(const Tensor& ids, Held held, const PassSettings& settings, const ExpertShape& shape, Dtype dtype,
                   Stream& stream) {
  Routes routes = routes_in_chunks(ids, held, settings, shape, dtype, stream);
  if (!settings.schedule.memory_limit) return routes;
  // A memory limit needs memory reuse (moe_choices.h), under which rows are not gathered chunk by chunk. buffer_bytes()
  // does not count gathered rows.
  base::require(!routes.collection, "[moe] schedule.moe.memory_limit is ", *settings.schedule.memory_limit,
                " bytes, but rows are gathered chunk by chunk; expected memory_limit: none");
  const int64_t limit = *settings.schedule.memory_limit;
  const auto largest = [&](int64_t value) {
    const double most =
        settings.groups.experts->all_reduce_value(static_cast<double>(value), comm::Reduce::max, ids.device());
    return static_cast<int64_t>(most);
  };
  const int64_t max_chunks = std::max<int64_t>(1, largest(routes.end - routes.begin));
  PassSettings finer = settings;
  finer.schedule.chunk_by = ChunkBy::tokens;
  while (true) {
    const int64_t bytes = largest(buffer_bytes(routes.plan.counts, shape, finer.schedule.memory_reuse, dtype));
    if (bytes <= limit || finer.schedule.chunks >= max_chunks) break;
    finer.schedule.chunks = std::min(max_chunks, more_chunks(finer.schedule.chunks, bytes, limit));
    routes = routes_in_chunks(ids, held, finer, shape, dtype, stream);
  }
  routes.settings = settings;
  return routes;
}

}  // namespace hexad::moe
