#include "parallel/ep/routing_plan.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

#include "framework/kernels/kernel_table.h"
#include "parallel/ep/offsets.h"
#include "parallel/ep/received.h"

namespace hexad::ep {

using device::Category;
using device::Device;
using namespace base;

namespace {

// Numbers of slots and rows, by sender (etp rank j, ep rank p) and chunk c.
struct Counts {
  int64_t etp, ep, chunks, local;
  int64_t here;                      // ep rank of this rank
  std::vector<int64_t> slots, rows;  // slots for the experts of this rank, and rows for each ep rank

  /// Returns the number of slots that this sender has for local expert e in chunk c.
  int64_t at(int64_t j, int64_t p, int64_t c, int64_t e) const { return slots[index(j, p, c) * local + e]; }
  /// Returns the number of slots of this sender for each local expert in chunk c.
  std::span<const int64_t> of(int64_t j, int64_t p, int64_t c) const {
    return std::span(slots).subspan(index(j, p, c) * local, local);
  }
  int64_t rows_to(int64_t to, int64_t j, int64_t p, int64_t c) const { return rows[index(j, p, c) * ep + to]; }
  int64_t rows_at(int64_t j, int64_t p, int64_t c) const { return rows_to(here, j, p, c); }
  /// Returns the number of slots in chunk c for all local experts, from all ranks.
  int64_t in_chunk(int64_t c) const {
    int64_t all = 0;
    for (int64_t j = 0; j < etp; ++j)
      for (int64_t p = 0; p < ep; ++p) all += sum_of(of(j, p, c));
    return all;
  }

 private:
  int64_t index(int64_t j, int64_t p, int64_t c) const { return (j * ep + p) * chunks + c; }
};

// Returns the group whose counts this rank needs. With EspExchange::replicated, each etp rank receives the same rows
// from its own ep group, so the counts of this rank's ep group suffice.
const comm::ProcessGroup& sources(const ExpertGroups& g, EspExchange esp_exchange) {
  return esp_exchange == EspExchange::replicated ? *g.ep : *g.experts;
}

// True if the sender and receiver of a row determine its chunk. Only the sums of counts over all chunks are then sent.
bool chunk_is_of_pair(const Chunking& chunking) { return chunking.by == Chunking::By::peers; }

// Returns the counts to send: [chunks, n] or, if chunk_is_of_pair(), the sums [n] over all chunks.
std::vector<int64_t> chunks_to_send(const std::vector<int64_t>& counts, const Chunking& chunking) {
  if (!chunk_is_of_pair(chunking)) return counts;
  const size_t n = counts.size() / static_cast<size_t>(chunking.chunks);
  std::vector<int64_t> sums(n, 0);
  for (size_t i = 0; i < counts.size(); ++i) sums[i % n] += counts[i];
  return sums;
}

// Exchanges the full matrix of counts. Returns the number of slots that this rank receives, and of rows that every rank
// sends.
Counts received_counts(const SlotOrder& order, const ExpertGroups& g, const PlanOptions& options, Device device) {
  const bool of_tokens = options.row_of == RowOf::token, of_pair = chunk_is_of_pair(options.chunking);
  const int64_t ep = g.ep->size(), local = order.experts / ep;
  const CountsMessage message{of_pair ? 1 : options.chunking.chunks, order.experts, ep,
                              of_tokens ? order.row_experts.dim(1) : 0};
  std::vector<int64_t> mine = chunks_to_send(order.counts, options.chunking);
  if (of_tokens) {
    const std::vector<int64_t> rows = chunks_to_send(order.rows_to, options.chunking);
    mine.insert(mine.end(), rows.begin(), rows.end());
  }
  mine.push_back(sum_of(order.counts));
  const comm::ProcessGroup& all = sources(g, options.esp_exchange);
  const std::vector<int64_t> matrix = all.all_gather_values(mine, device);
  for (int q = 0; q < all.size(); ++q)
    message.check(std::span(matrix).subspan(static_cast<size_t>(q) * mine.size(), mine.size()), q, all);
  Counts counts{all.size() / ep, ep, options.chunking.chunks, local, g.ep->rank(), {}, {}};
  for (int64_t j = 0; j < counts.etp; ++j)
    for (int64_t p = 0; p < ep; ++p) {
      const auto slots = matrix.begin() + (p * counts.etp + j) * static_cast<int64_t>(mine.size());
      const auto rows = slots + message.chunks * order.experts;
      for (int64_t c = 0; c < counts.chunks; ++c) {
        for (int64_t to = 0; to < ep; ++to) {
          const bool sent = !of_pair || options.chunking.chunk(0, 1, to * local, local, static_cast<int>(p),
                                                               static_cast<int>(ep)) == c;
          const int64_t of_message = of_pair ? 0 : c;
          const auto of_rank = slots + of_message * order.experts + to * local;
          if (to == counts.here && sent) counts.slots.insert(counts.slots.end(), of_rank, of_rank + local);
          if (to == counts.here && !sent) counts.slots.insert(counts.slots.end(), local, 0);
          const int64_t n =
              of_tokens ? rows[of_message * ep + to] : std::accumulate(of_rank, of_rank + local, int64_t{0});
          counts.rows.push_back(sent ? n : 0);
        }
      }
    }
  return counts;
}

// Calls f(etp rank, ep rank) for each sender, in the order of the received rows: by etp rank after gathering, or by ep
// rank after a direct all-to-all.
template <class F>
void for_each_source(const Counts& n, EspExchange esp_exchange, const F& f) {
  const bool direct = esp_exchange == EspExchange::direct;
  const int64_t outer = direct ? n.ep : n.etp, inner = direct ? n.etp : n.ep;
  for (int64_t a = 0; a < outer; ++a)
    for (int64_t b = 0; b < inner; ++b)
      if (direct)
        f(b, a);
      else
        f(a, b);
}

// First grouped row of each (expert, etp rank, ep rank, chunk).
class GroupedOrder {
 public:
  GroupedOrder(const Counts& n, int64_t first_chunk, int64_t last_chunk) : n_(n), first_(n.slots.size()) {
    int64_t row = 0;
    offsets.push_back(0);
    for (int64_t e = 0; e < n.local; ++e) {
      for (int64_t j = 0; j < n.etp; ++j)
        for (int64_t p = 0; p < n.ep; ++p)
          for (int64_t c = first_chunk; c < last_chunk; ++c) {
            first_[index(j, p, c, e)] = row;
            row += n.at(j, p, c, e);
          }
      offsets.push_back(row);
    }
  }
  int64_t first(int64_t j, int64_t p, int64_t c, int64_t e) const { return first_[index(j, p, c, e)]; }
  std::vector<int64_t> offsets;

 private:
  size_t index(int64_t j, int64_t p, int64_t c, int64_t e) const {
    return static_cast<size_t>(((j * n_.ep + p) * n_.chunks + c) * n_.local + e);
  }
  const Counts& n_;
  std::vector<int64_t> first_;
};

Tensor index_tensor(const std::vector<int64_t>& values, Device device) {
  return Tensor::from<int64_t>(values, {static_cast<int64_t>(values.size())}, device, Category::communication);
}

// Returns the grouped row to which each arrived row of the chunk is copied (ChunkIndices::place); undefined if no row
// has to move. Rows with the same source and expert stay adjacent and form a part. A kernel computes all positions from
// those of the parts.
Tensor placement(const Counts& n, int64_t chunk, EspExchange esp_exchange, const GroupedOrder& order, Device device,
                 Stream& stream) {
  std::vector<int64_t> ends, shifts;  // for each part: its end, and the distance to its grouped rows
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

// Experts of every token row that this rank receives, by source and chunk.
class RowExperts {
 public:
  RowExperts(const SlotOrder& order, const Counts& n, const ExpertGroups& g, EspExchange esp_exchange, Device device)
      : n_(n), width_(order.row_experts.dim(1)) {
    const comm::ProcessGroup& all = sources(g, esp_exchange);
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
  /// Returns the experts [width] of row i of a source and chunk. Entries of -1 follow the last expert.
  std::span<const int32_t> of(int64_t j, int64_t p, int64_t c, int64_t i) const {
    return {received_.data<int32_t>() + (first_[index(j, p, c)] + i) * width_, static_cast<size_t>(width_)};
  }

 private:
  size_t index(int64_t j, int64_t p, int64_t c) const { return static_cast<size_t>((j * n_.ep + p) * n_.chunks + c); }

  const Counts& n_;
  int64_t width_;
  std::vector<int64_t> first_;
  Tensor received_;
};

// Returns the indices of a chunk of token rows: the places of their copies, and the grouped rows that are summed for
// each token row.
ChunkIndices place_copies(const Counts& n, const RowExperts& experts, int64_t c, EspExchange esp_exchange,
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
  if (!merged) {  // sorts the copies by grouped row, which saves a second copy
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

// Returns the number of rows that this rank sends to each rank of the all-to-all in chunk c. With a direct exchange
// (fan_out > 1), a row is sent to all etp ranks of its expert.
std::vector<int64_t> rows_to(const SlotOrder& order, int64_t c, int64_t ranks, int64_t fan_out) {
  std::vector<int64_t> to;
  for (int64_t p = 0; p < ranks; ++p) to.insert(to.end(), fan_out, order.rows_to[c * ranks + p]);
  return to;
}

void splits_of(ChunkCounts& chunk, const Counts& n, int64_t c, const PlanOptions& options, const ExpertGroups& g) {
  const int64_t own = options.esp_exchange == EspExchange::replicated ? 0 : g.etp->rank();
  for (int64_t p = 0; p < n.ep; ++p) {
    if (options.esp_exchange == EspExchange::direct)
      for (int64_t j = 0; j < n.etp; ++j) chunk.splits.receive.push_back(n.rows_at(j, p, c));
    else
      chunk.splits.receive.push_back(n.rows_at(own, p, c));
  }
  if (options.esp_exchange != EspExchange::gather) return;
  for (int64_t j = 0; j < n.etp; ++j) {
    int64_t rows = 0;
    for (int64_t p = 0; p < n.ep; ++p) rows += n.rows_at(j, p, c);
    chunk.shared.push_back(rows);
  }
}

// Returns the numbers of rows that the ranks of the all-to-all send to each other in chunk c. `n` must outlive the
// result.
RowsBetween rows_between(const Counts& n, int64_t c, const PlanOptions& options, const ExpertGroups& g) {
  const int64_t fan = options.esp_exchange == EspExchange::direct ? n.etp : 1;
  const int64_t own = options.esp_exchange == EspExchange::gather ? g.etp->rank() : 0;
  return [&n, c, fan, own](int source, int destination) {
    return n.rows_to(destination / fan, own + source % fan, source / fan, c);
  };
}

// Returns the slots [S, M] of the slot rows. M is 1 if rows belong to slots.
Tensor row_slots_of(const SlotOrder& order, Stream& stream) {
  if (order.row_slots.defined()) return order.row_slots;
  const Device device = order.rows.device();
  const Tensor slots = Tensor::empty({order.size()}, Dtype::i64, device, Category::communication);
  kernels::kernels(device).index.inverse(stream, slots, order.rows.reshape({order.rows.numel()}));
  return slots.reshape({order.size(), 1});
}

// Sets the indices of the rows to send, sorted by chunk, destination rank and slot row. `destinations` is the order of
// the ranks of the all-to-all. A row for ep rank p is sent to the ranks p * etp + j, j < etp.
void lay_out(PlanIndices& plan, const SlotOrder& order, const std::vector<std::vector<int64_t>>& slots_to,
             const std::vector<int>& destinations, int64_t etp, Stream& stream) {
  const Device device = order.tokens.device();
  std::vector<int64_t> wire_slots, copies(order.size() * etp);
  int64_t chunk_slot = 0;
  for (const auto& to : slots_to) {  // number of slot rows of a chunk, for each ep rank
    const auto chunk_begin = static_cast<int64_t>(wire_slots.size());
    const std::vector<int64_t> first = offsets_of(to);
    for (const int destination : destinations) {
      const size_t p = destination / etp;
      const int64_t j = destination % etp;
      for (int64_t slot = chunk_slot + first[p]; slot < chunk_slot + first[p + 1]; ++slot) {
        copies[slot * etp + j] = static_cast<int64_t>(wire_slots.size()) - chunk_begin;
        wire_slots.push_back(slot);
      }
    }
    chunk_slot += first.back();
  }
  plan.wire_slots = index_tensor(wire_slots, device);
  plan.copies = index_tensor(copies, device).reshape({order.size(), etp});
  plan.wire_tokens = Tensor::like(plan.wire_slots, Category::communication);
  kernels::kernels(device).index.take(stream, plan.wire_tokens, order.tokens, plan.wire_slots);
}

}  // namespace

int64_t ChunkCounts::rows_received() const { return sum_of(splits.receive); }

int64_t PlanCounts::rows_received() const {
  int64_t all = 0;
  for (const ChunkCounts& c : chunks) all += c.rows_received();
  return all;
}

int64_t PlanCounts::rows_computed() const {
  if (merged) return chunks.front().rows_computed();
  int64_t all = 0;
  for (const ChunkCounts& c : chunks) all += c.rows_computed();
  return all;
}

RoutingPlan make_routing_plan(const SlotOrder& order, const ExpertGroups& groups, const PlanOptions& options,
                              Stream& stream) {
  const int ranks = groups.ep->size();
  require(groups.experts->size() == ranks * groups.etp->size(), "[ep] ", groups.experts->size(),
          " ranks in a group of ep x etp = ", ranks, " x ", groups.etp->size());
  const int64_t chunks = options.chunking.chunks;
  const Device device = order.rows.device(), host_device = device.host();
  const Counts counts = received_counts(order, groups, options, host_device);
  const int64_t fan = options.esp_exchange == EspExchange::direct ? groups.etp->size() : 1;
  std::optional<RowExperts> row_experts;
  if (options.row_of == RowOf::token) row_experts.emplace(order, counts, groups, options.esp_exchange, host_device);

  RoutingPlan plan;
  PlanCounts& host = plan.counts;
  PlanIndices& device_side = plan.indices;
  host.esp_exchange = options.esp_exchange, host.row_of = options.row_of, host.merged = options.merged;
  host.all_to_all = options.all_to_all;
  device_side.row_slots = row_slots_of(order, stream);
  host.slots_per_row = device_side.row_slots.dim(1);
  const comm::ProcessGroup& all_to_all = host.all_to_all_group(groups);
  const comm::NodeGrid grid(all_to_all.node_of_rank());
  const bool two_steps = host.node_groups(groups) != nullptr;
  device_side.wire_tokens = order.tokens;
  device_side.rows = order.rows;
  std::vector<std::vector<int64_t>> slots_to;
  const auto add = [&](int64_t c, const GroupedOrder& grouped) {
    slots_to.push_back(rows_to(order, c, ranks, 1));
    ChunkCounts chunk;
    chunk.slots_begin = host.chunks.empty() ? 0 : host.chunks.back().slots_end;
    chunk.slots_end = chunk.slots_begin + sum_of(slots_to.back());
    chunk.wire_begin = chunk.slots_begin * fan;
    chunk.wire_end = chunk.slots_end * fan;
    chunk.splits.send = rows_to(order, c, ranks, fan);
    splits_of(chunk, counts, c, options, groups);
    if (two_steps) chunk.steps = node_steps(grid, all_to_all.rank(), rows_between(counts, c, options, groups));
    chunk.offsets = grouped.offsets;
    chunk.rows_in_chunk = counts.in_chunk(c);
    ChunkIndices indices;
    if (row_experts)
      indices = place_copies(counts, *row_experts, c, options.esp_exchange, grouped, options.merged, device);
    else
      indices.place = placement(counts, c, options.esp_exchange, grouped, device, stream);
    chunk.placed = indices.place.defined() || indices.of_tokens();
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
  if (two_steps || fan > 1) lay_out(device_side, order, slots_to, destinations, fan, stream);
  const ReturnOrder returns(ranks, static_cast<int>(fan), options.return_phases);
  if (returns.phases() == 1) return plan;
  require(chunks == 1 && !options.merged, "[ep] rows return in ", returns.phases(), " phases, but are sent in ", chunks,
          options.merged ? " merged" : "", " chunks, expected one chunk that is not merged");
  host.phased = phased_return(returns, {.rank = all_to_all.rank(),
                                        .fan = static_cast<int>(fan),
                                        .all = host.chunks.front(),
                                        .destinations = destinations,
                                        .grid = grid,
                                        .between = rows_between(counts, 0, options, groups)});
  return plan;
}

}  // namespace hexad::ep
