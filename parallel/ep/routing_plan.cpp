#include "parallel/ep/routing_plan.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

#include "framework/base/counted.h"
#include "framework/kernels/kernel_table.h"
#include "parallel/ep/index_tensor.h"
#include "parallel/ep/joined_rows.h"
#include "parallel/ep/received.h"
#include "parallel/ep/received_counts.h"
#include "parallel/ep/window_exchange.h"

namespace hexad::ep {

using device::Category;
using device::Device;
using namespace base;

namespace {

// Returns the grouped row to which each arrived row of the chunk is copied (ChunkIndices::place). The
// result is undefined if the arrived rows are already the grouped rows, in order. Rows with the same source and expert
// remain adjacent and form a part. A kernel computes the positions of all rows from the positions of the parts.
Tensor placement(const ReceivedCounts& n, int64_t chunk, EspExchange esp_exchange, const GroupedOrder& order,
                 Device device, Stream& stream) {
  std::vector<int64_t> ends, shifts;  // for each part: its end, and the shift from its rows to its grouped rows
  int64_t rows = 0;
  for_each_source(n, esp_exchange, [&](int64_t j, int64_t p) {
    for (int64_t e = 0; e < n.local; ++e) {
      if (n.at(j, p, chunk, e) == 0) continue;
      const int64_t shift = order.first(j, p, chunk, e) - rows;
      rows += n.at(j, p, chunk, e);
      if (!shifts.empty() && shifts.back() == shift)
        ends.back() = rows;
      else
        ends.push_back(rows), shifts.push_back(shift);
    }
  });
  const bool in_order = shifts.empty() || (shifts.size() == 1 && shifts.front() == 0);
  if (in_order && rows == order.offsets.back()) return {};
  std::vector<int64_t> parts = ends;
  parts.insert(parts.end(), shifts.begin(), shifts.end());
  const Tensor place = Tensor::empty({rows}, Dtype::i64, device, Category::communication);
  kernels::kernels(device).index.iota_parts(
      stream, place,
      Tensor::from<int64_t>(parts, {2, static_cast<int64_t>(ends.size())}, device, Category::communication));
  return place;
}

// Experts of each token row that this rank receives, by source and chunk.
class RowExperts {
 public:
  RowExperts(const SlotOrder& order, const ReceivedCounts& n, const ExpertGroups& g, EspExchange esp_exchange,
             Device device)
      : n_(n), width_(order.row_experts.dim(1)) {
    const comm::ProcessGroup& all = g.sources(esp_exchange);
    const std::vector<int64_t> first = offsets_of(order.rows_to);
    comm::Splits splits;
    std::vector<int32_t> out;
    for (int64_t p = 0; p < n.ep; ++p)
      for (int64_t j = 0; j < n.etp; ++j) {
        const size_t before = out.size();
        for (int64_t c = 0; c < n.chunks; ++c) {
          const size_t part = c * n.ep + p;
          const int32_t* from = order.row_experts.data<int32_t>();
          out.insert(out.end(), from + first[part] * width_, from + first[part + 1] * width_);
        }
        splits.send.push_back(static_cast<int64_t>(out.size() - before) / width_);
      }
    first_.assign(n.etp * n.ep * n.chunks, 0);
    int64_t rows = 0;
    for (int64_t p = 0; p < n.ep; ++p)
      for (int64_t j = 0; j < n.etp; ++j) {
        const int64_t before = rows;
        for (int64_t c = 0; c < n.chunks; ++c) {
          first_[index(j, p, c)] = rows;
          rows += n.rows_at(j, p, c);
        }
        splits.receive.push_back(rows - before);
      }
    const Tensor send = Tensor::from<int32_t>(out, {sum_of(splits.send), width_}, device, Category::communication);
    received_ = Tensor::empty({rows, width_}, Dtype::i32, device, Category::communication);
    device::InlineStream stream;
    all.all_to_all(received_, send, splits, stream).wait();
    for (int64_t p = 0; p < n.ep; ++p)
      for (int64_t j = 0; j < n.etp; ++j)
        for (int64_t c = 0; c < n.chunks; ++c)
          check_row_experts({received_.data<int32_t>() + first_[index(j, p, c)] * width_,
                             static_cast<size_t>(n.rows_at(j, p, c) * width_)},
                            width_, n.of(j, p, c), static_cast<int>(p * n.etp + j), all);
  }

  int64_t width() const { return width_; }
  /// Returns the experts [width] of row i of a source and chunk, padded with -1.
  std::span<const int32_t> of(int64_t j, int64_t p, int64_t c, int64_t i) const {
    return {received_.data<int32_t>() + (first_[index(j, p, c)] + i) * width_, static_cast<size_t>(width_)};
  }

 private:
  size_t index(int64_t j, int64_t p, int64_t c) const { return (j * n_.ep + p) * n_.chunks + c; }

  const ReceivedCounts& n_;
  int64_t width_;
  std::vector<int64_t> first_;
  Tensor received_;
};

// Returns the indices of a chunk of token rows: the grouped row of each copy, and the grouped rows that are summed for
// each token row.
ChunkIndices place_copies(const ReceivedCounts& n, const RowExperts& experts, int64_t c, EspExchange esp_exchange,
                          const GroupedOrder& order, bool merged, Device device) {
  ChunkIndices chunk;
  const int64_t width = experts.width();
  std::vector<int64_t> reduced, place, source, entry;
  for_each_source(n, esp_exchange, [&](int64_t j, int64_t p) {
    std::vector<int64_t> next;
    for (int64_t e = 0; e < n.local; ++e) next.push_back(order.first(j, p, c, e));
    for (int64_t i = 0; i < n.rows_at(j, p, c); ++i)
      for (const int32_t e : experts.of(j, p, c, i)) {
        const auto at = static_cast<int64_t>(reduced.size());
        reduced.push_back(e < 0 ? -1 : next[e]++);
        if (e < 0) continue;
        place.push_back(reduced.back());
        source.push_back(at / width);
        entry.push_back(at);
      }
  });
  if (!merged) {  // sorts the copies by grouped row, so that rows are copied only once
    std::vector<int64_t> by_group(place.size());
    for (size_t i = 0; i < place.size(); ++i) by_group[place[i]] = entry[i];
    entry = std::move(by_group);
    for (size_t i = 0; i < entry.size(); ++i) source[i] = entry[i] / width;
  } else {
    chunk.place = index_tensor(place, device);
  }
  chunk.source = index_tensor(source, device);
  chunk.entry = index_tensor(entry, device);
  chunk.reduced = index_tensor(reduced, device).reshape({static_cast<int64_t>(reduced.size()) / width, width});
  return chunk;
}

// Returns the number of rows that this rank sends to each rank of the all-to-all in chunk c. `rows` [chunks, ranks] is
// SlotOrder::rows_to or rows_from(). With EspExchange::direct, `fan_out` is the number of etp ranks, because a row is
// sent to all etp ranks of its expert.
std::vector<int64_t> rows_to(const std::vector<int64_t>& rows, int64_t c, int64_t ranks, int64_t fan_out) {
  std::vector<int64_t> to;
  for (int64_t p = 0; p < ranks; ++p) to.insert(to.end(), fan_out, rows[c * ranks + p]);
  return to;
}

// Sets the number of rows that this rank receives from each rank in chunk c. With EspExchange::gather, also sets the
// number of rows that each etp rank contributes to the all-gather over the etp ranks.
void receive(MovedRows& moved, const ReceivedCounts& n, int64_t c, const RoutingOptions& options,
             const ExpertGroups& g) {
  const int64_t own = options.esp_exchange == EspExchange::replicated ? 0 : g.etp->rank();
  for (int64_t p = 0; p < n.ep; ++p) {
    if (options.esp_exchange == EspExchange::direct)
      for (int64_t j = 0; j < n.etp; ++j) moved.splits.receive.push_back(n.rows_at(j, p, c));
    else
      moved.splits.receive.push_back(n.rows_at(own, p, c));
  }
  if (options.esp_exchange != EspExchange::gather) return;
  for (int64_t j = 0; j < n.etp; ++j) {
    int64_t rows = 0;
    for (int64_t p = 0; p < n.ep; ++p) rows += n.rows_at(j, p, c);
    moved.shared.push_back(rows);
  }
}

// Returns the numbers of rows that the ranks of the all-to-all send to each other in chunk c. `n` must outlive the
// result.
RowsBetween rows_between(const ReceivedCounts& n, int64_t c, const RoutingOptions& options, const ExpertGroups& g) {
  const int64_t fan = options.esp_exchange == EspExchange::direct ? n.etp : 1;
  const int64_t own = options.esp_exchange == EspExchange::gather ? g.etp->rank() : 0;
  return [&n, c, fan, own](int source, int destination) {
    return n.rows_to(destination / fan, own + source % fan, source / fan, c);
  };
}

// Returns RoutingIndices::row_slots: the slots [S, M] of the slot rows. M is 1 if rows belong to slots.
Tensor row_slots_of(const SlotOrder& order, Stream& stream) {
  if (order.row_slots.defined()) return order.row_slots;
  const Device device = order.rows.device();
  const Tensor slots = Tensor::empty({order.size()}, Dtype::i64, device, Category::communication);
  kernels::kernels(device).index.inverse(stream, slots, order.rows.reshape({order.rows.numel()}));
  return slots.reshape({order.size(), 1});
}

// Calls f(row, chunk, j) for each copy of each row, sorted by chunk, destination rank and row. `rows` [chunks, ranks]
// contains the numbers of rows. Rows are numbered consecutively, in the order of these entries. `destinations` is the
// order of the destination ranks. A row for ep rank p is sent to the ranks p * etp + j of the all-to-all, with j < etp.
template <class F>
void for_each_copy(const std::vector<int64_t>& rows, int64_t ranks, const std::vector<int>& destinations, int64_t etp,
                   const F& f) {
  const std::vector<int64_t> first = offsets_of(rows);
  for (int64_t c = 0; c < static_cast<int64_t>(rows.size()) / ranks; ++c)
    for (const int destination : destinations) {
      const int64_t part = c * ranks + destination / etp;
      for (int64_t row = first[part]; row < first[part + 1]; ++row) f(row, c, destination % etp);
    }
}

// Sets the indices of the rows to send, sorted by chunk, destination rank and row.
void lay_out(RoutingIndices& plan, const SlotOrder& order, int64_t ranks, const std::vector<int>& destinations,
             int64_t etp, Stream& stream) {
  const Device device = order.tokens.device();
  std::vector<int64_t> wire_slots;
  for_each_copy(order.rows_to, ranks, destinations, etp,
                [&](int64_t row, int64_t, int64_t) { wire_slots.push_back(order.joined ? order.sent[row] : row); });
  plan.wire_slots = index_tensor(wire_slots, device);
  plan.wire_tokens = Tensor::like(plan.wire_slots, Category::communication);
  kernels::kernels(device).index.take(stream, plan.wire_tokens, order.tokens, plan.wire_slots);
}

// Sets the positions of the rows that return for each slot row.
void set_copies(RoutingIndices& plan, const SlotOrder& order, int64_t ranks, const std::vector<int>& destinations,
                int64_t etp) {
  std::vector<int64_t> copies(order.size() * etp);
  int64_t chunk = 0, next = 0;
  for_each_copy(order.rows_from(), ranks, destinations, etp, [&](int64_t row, int64_t c, int64_t j) {
    if (c != chunk) chunk = c, next = 0;
    copies[row * etp + j] = next++;
  });
  plan.copies = index_tensor(copies, order.tokens.device()).reshape({order.size(), etp});
}

}  // namespace

int64_t ChunkCounts::rows_received() const { return sum_of(splits.receive); }
int64_t ChunkCounts::rows_to_get_back() const { return sum_of(return_counts().splits.send); }
int64_t ChunkCounts::rows_to_return() const { return sum_of(return_counts().splits.receive); }

int64_t RoutingCounts::rows_received() const {
  int64_t all = 0;
  for (const ChunkCounts& c : chunks) all += c.rows_received();
  return all;
}

int64_t RoutingCounts::rows_computed() const {
  if (merged) return chunks.front().rows_computed();
  int64_t all = 0;
  for (const ChunkCounts& c : chunks) all += c.rows_computed();
  return all;
}

int64_t RoutingCounts::rows_gathered() const {
  int64_t all = 0;
  for (const ChunkCounts& c : chunks) all += c.shared.empty() ? c.rows_received() : sum_of(c.shared);
  return all;
}

RoutingPlan make_routing_plan(const SlotOrder& order, const ExpertGroups& groups, const RoutingOptions& options,
                              Stream& stream) {
  const int ranks = groups.ep->size();
  require(groups.experts->size() == ranks * groups.etp->size(), "[ep] the group of experts has ",
          groups.experts->size(), " ranks, but ep x etp is ", ranks, " x ", groups.etp->size(), "; expected ",
          ranks * groups.etp->size(), " ranks");
  require(!options.hot.any() || options.row_of == RowOf::slot, "[ep] a routing plan has ",
          counted(options.hot.count(), "hot expert"), " and rows of tokens; expected rows of slots");
  const int64_t chunks = options.chunking.chunks;
  const Device device = order.rows.device(), host_device = device.host();
  const ReceivedCounts counts = received_counts(order, groups, options, host_device);
  const int64_t fan = options.esp_exchange == EspExchange::direct ? groups.etp->size() : 1;
  const bool by_window = options.all_to_all == AllToAll::window;
  require(!by_window || (groups.etp->size() == 1 && options.row_of == RowOf::slot && !options.hot.any() &&
                         !options.merged && options.return_phases == 1),
          "[ep] all_to_all window: row_of is ", enum_name(options.row_of), ", return_phases ", options.return_phases,
          ", etp ", groups.etp->size(), ", hot experts ", options.hot.count(), ", merged ",
          options.merged ? "yes" : "no", "; expected slot, 1, 1, 0, no");
  require(!(order.joined && options.merged), "[ep] rows of ", counted(chunks, "merged chunk"),
          " are joined; expected either joined rows or merged chunks");
  std::optional<RowExperts> row_experts;
  std::vector<ChunkIndices> joined;
  if (order.joined)
    joined = join_rows(order, counts, groups, options, device);
  else if (options.row_of == RowOf::token)
    row_experts.emplace(order, counts, groups, options.esp_exchange, host_device);

  RoutingPlan plan;
  RoutingCounts& host = plan.counts;
  RoutingIndices& device_side = plan.indices;
  host.esp_exchange = options.esp_exchange, host.row_of = options.row_of, host.merged = options.merged;
  host.all_to_all = options.all_to_all, host.joined = order.joined, host.hot = options.hot;
  if (by_window && groups.windows && ranks > 1 &&
      groups.windows->hold(max_rows_received(counts) * options.row_bytes, device)) {
    if (groups.windows->take_fresh()) check_windows(*groups.windows, device, stream);
    host.windows = groups.windows;
  }
  device_side.row_slots = row_slots_of(order, stream);
  host.slots_per_row = device_side.row_slots.dim(1);
  const comm::ProcessGroup& all_to_all = host.all_to_all_group(groups);
  const comm::NodeGrid grid(all_to_all.node_of_rank());
  const bool two_steps = host.node_groups(groups) != nullptr;
  device_side.wire_tokens = order.tokens;
  device_side.rows = order.rows;
  const auto moved = [&](const std::vector<int64_t>& rows, const ReceivedCounts& n, int64_t c) {
    MovedRows out;
    out.splits.send = rows_to(rows, c, ranks, fan);
    receive(out, n, c, options, groups);
    if (two_steps) out.steps = node_steps(grid, all_to_all.rank(), rows_between(n, c, options, groups));
    return out;
  };
  const ReceivedCounts back = counts.by_return();
  const auto add = [&](int64_t c, const GroupedOrder& grouped) {
    ChunkCounts chunk;
    static_cast<MovedRows&>(chunk) = moved(order.rows_to, counts, c);
    if (order.joined) chunk.returned = moved(order.rows_from(), back, c);
    if (!host.chunks.empty()) {
      const ChunkCounts& before = host.chunks.back();
      chunk.slots_begin = before.slots_end, chunk.wire_begin = before.wire_end;
      chunk.arrived_begin = host.rows_gathered();
      chunk.computed_begin = before.computed_begin + before.rows_in_chunk;
    }
    chunk.slots_end = chunk.slots_begin + chunk.rows_to_get_back() / fan;
    chunk.wire_end = chunk.wire_begin + sum_of(chunk.splits.send);
    chunk.offsets = grouped.offsets;
    if (const int64_t own = options.hot.own(); own > 0)
      for (int64_t e = own; e <= own + options.hot.count(); ++e)
        chunk.shadow_offsets.push_back(chunk.offsets[e] - chunk.offsets[own]);
    chunk.rows_in_chunk = counts.in_chunk(c);
    ChunkIndices indices;
    if (host.windows)
      indices.runs = window_runs(counts, c, device);
    else if (order.joined)
      indices = std::move(joined[c]);
    else if (row_experts)
      indices = place_copies(counts, *row_experts, c, options.esp_exchange, grouped, options.merged, device);
    else
      indices.place = placement(counts, c, options.esp_exchange, grouped, device, stream);
    chunk.placed = indices.place.defined() || indices.rows_are_tokens();
    host.chunks.push_back(std::move(chunk));
    device_side.chunks.push_back(std::move(indices));
  };
  if (options.merged) {
    const GroupedOrder grouped(counts, 0, chunks);
    for (int64_t c = 0; c < chunks; ++c) add(c, grouped);
  } else {
    for (int64_t c = 0; c < chunks; ++c) add(c, GroupedOrder(counts, c, c + 1));
  }
  std::vector<int> destinations(all_to_all.size());
  std::iota(destinations.begin(), destinations.end(), 0);
  if (two_steps) destinations = destinations_by_place(grid);
  // Rows are sent in the order of the slot rows without lay_out(), and return in this order without set_copies().
  if (two_steps || fan > 1 || order.joined) lay_out(device_side, order, ranks, destinations, fan, stream);
  if (two_steps || fan > 1) set_copies(device_side, order, ranks, destinations, fan);
  const ReturnOrder returns(groups.ep->node_of_rank(), static_cast<int>(fan), options.return_phases);
  if (returns.phases() == 1) return plan;
  require(chunks == 1 && !options.merged, "[ep] rows return in ", returns.phases(), " phases, but are sent in ", chunks,
          options.merged ? " merged " : " ", plural(chunks, "chunk"), "; expected one chunk that is not merged");
  host.phased = phased_return(returns, {.rank = all_to_all.rank(),
                                        .fan = static_cast<int>(fan),
                                        .all = host.chunks.front(),
                                        .destinations = destinations,
                                        .grid = grid,
                                        .between = rows_between(counts, 0, options, groups)});
  return plan;
}

}  // namespace hexad::ep
