#include "parallel/ep/routing_plan.h"

#include <algorithm>

#include "parallel/ep/offsets.h"

namespace hexad::ep {
namespace {

// Rows by who sends them: at(j, p, c, e) come from etp rank j, ep rank p, in chunk c, for local expert e.
struct Counts {
  int64_t etp, ep, chunks, local;
  std::vector<int64_t> rows;

  int64_t at(int64_t j, int64_t p, int64_t c, int64_t e) const {
    return rows[static_cast<size_t>(((j * ep + p) * chunks + c) * local + e)];
  }
};

// What the local experts get, from the full matrix of counts [sources, chunks, experts]. With `held` rows the etp ranks
// get the same, each from its own ep group: one of them is enough to know.
Counts received_counts(const SlotOrder& order, const ExpertGroups& g, const PlanOptions& options, Device device) {
  const bool held = options.spread == Spread::held;
  const comm::ProcessGroup& sources = held ? *g.ep : *g.experts;
  const std::vector<int64_t> matrix = sources.all_gather_values(order.counts, device);
  const int64_t etp = held ? 1 : g.etp->size(), ep = g.ep->size(), local = order.experts / ep;
  Counts counts{etp, ep, options.cutting.chunks, local, {}};
  for (int64_t j = 0; j < etp; ++j)
    for (int64_t p = 0; p < ep; ++p)
      for (int64_t c = 0; c < counts.chunks; ++c) {
        const auto row = matrix.begin() + ((p * etp + j) * counts.chunks + c) * order.experts + g.ep->rank() * local;
        counts.rows.insert(counts.rows.end(), row, row + local);
      }
  return counts;
}

// In grouped order, (expert, etp rank, ep rank, chunk): where the rows of each begin.
class GroupedOrder {
 public:
  GroupedOrder(const Counts& n, int64_t first_chunk, int64_t last_chunk) : n_(n), first_(n.rows.size()) {
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

// Rows lie by (etp rank, ep rank, expert) after a gathering, by (ep rank, etp rank, expert) after a direct all-to-all.
Tensor placement(const Counts& n, int64_t chunk, Spread spread, const GroupedOrder& order, Device device) {
  std::vector<int64_t> place;
  const auto add = [&](int64_t j, int64_t p) {
    for (int64_t e = 0; e < n.local; ++e)
      for (int64_t i = 0; i < n.at(j, p, chunk, e); ++i) place.push_back(order.first(j, p, chunk, e) + i);
  };
  if (spread == Spread::direct) {
    for (int64_t p = 0; p < n.ep; ++p)
      for (int64_t j = 0; j < n.etp; ++j) add(j, p);
  } else {
    for (int64_t j = 0; j < n.etp; ++j)
      for (int64_t p = 0; p < n.ep; ++p) add(j, p);
  }
  const auto rows = static_cast<int64_t>(place.size());
  bool identity = true;
  for (int64_t i = 0; i < rows; ++i) identity &= place[static_cast<size_t>(i)] == i;
  if (identity && rows == order.offsets.back()) return {};
  Tensor t = Tensor::empty({rows}, Dtype::i64, device, Category::communication);
  std::copy(place.begin(), place.end(), t.data<int64_t>());
  return t;
}

// What leaves this rank in chunk c for each rank of the all-to-all, in order. One that is sent directly goes to every
// etp rank of its expert's ep rank.
std::vector<int64_t> rows_to(const SlotOrder& order, int64_t c, int64_t ranks, int64_t fan_out) {
  std::vector<int64_t> to;
  const int64_t local = order.experts / ranks;
  for (int64_t p = 0; p < ranks; ++p) {
    const auto first = order.counts.begin() + c * order.experts + p * local;
    const int64_t rows = sum_of({first, first + local});
    for (int64_t j = 0; j < fan_out; ++j) to.push_back(rows);
  }
  return to;
}

void splits_of(Chunk& chunk, const Counts& n, int64_t c, const PlanOptions& options, const ExpertGroups& g) {
  const auto from = [&](int64_t j, int64_t p) {
    int64_t rows = 0;
    for (int64_t e = 0; e < n.local; ++e) rows += n.at(j, p, c, e);
    return rows;
  };
  const int64_t own = options.spread == Spread::held ? 0 : g.etp->rank();
  for (int64_t p = 0; p < n.ep; ++p) {
    if (options.spread == Spread::direct)
      for (int64_t j = 0; j < n.etp; ++j) chunk.splits.receive.push_back(from(j, p));
    else
      chunk.splits.receive.push_back(from(own, p));
  }
  if (options.spread != Spread::gather) return;
  for (int64_t j = 0; j < n.etp; ++j) {
    int64_t rows = 0;
    for (int64_t p = 0; p < n.ep; ++p) rows += from(j, p);
    chunk.shared.push_back(rows);
  }
}

// Rows sent directly lie by (chunk, ep rank, etp rank, slot row).
void fan_out(RoutingPlan& plan, const std::vector<std::vector<int64_t>>& slots_to, int64_t etp, Device device) {
  const int64_t slots = plan.slots();
  plan.wire_slots = Tensor::empty({slots * etp}, Dtype::i64, device, Category::communication);
  plan.wire_tokens = Tensor::like(plan.wire_slots, Category::communication);
  plan.copies = Tensor::empty({slots, etp}, Dtype::i64, device, Category::communication);
  int64_t slot = 0, wire = 0;
  for (const auto& to : slots_to) {  // of a chunk, by ep rank
    const int64_t chunk_begin = wire;
    for (const int64_t rows : to) {
      for (int64_t j = 0; j < etp; ++j)
        for (int64_t i = 0; i < rows; ++i, ++wire) {
          plan.wire_slots.data<int64_t>()[wire] = slot + i;
          plan.wire_tokens.data<int64_t>()[wire] = plan.tokens.data<int64_t>()[slot + i];
          plan.copies.data<int64_t>()[(slot + i) * etp + j] = wire - chunk_begin;
        }
      slot += rows;
    }
  }
}

}  // namespace

int64_t Chunk::rows_received() const { return sum_of(splits.receive); }

int64_t RoutingPlan::rows_received() const {
  int64_t all = 0;
  for (const Chunk& c : chunks) all += c.rows_received();
  return all;
}

int64_t RoutingPlan::rows_computed() const {
  if (merged) return chunks.front().rows_computed();
  int64_t all = 0;
  for (const Chunk& c : chunks) all += c.rows_computed();
  return all;
}

RoutingPlan make_routing_plan(const Tensor& ids, int64_t experts, const ExpertGroups& groups,
                              const PlanOptions& options) {
  const ExpertGroups& g = groups;
  return make_routing_plan(order_slots(ids, experts, options.cutting, g.ep->rank(), g.ep->size()), g, options);
}

RoutingPlan make_routing_plan(const SlotOrder& order, const ExpertGroups& groups, const PlanOptions& options) {
  const int ranks = groups.ep->size();
  require(groups.experts->size() == ranks * groups.etp->size(), "[ep] ", groups.experts->size(), " ranks are no ",
          ranks, " x ", groups.etp->size(), " of ep x etp");
  const int64_t chunks = options.cutting.chunks;
  const Device device = order.rows.device();
  const Counts counts = received_counts(order, groups, options, device);
  const int64_t fan = options.spread == Spread::direct ? groups.etp->size() : 1;

  RoutingPlan plan;
  plan.spread = options.spread, plan.merged = options.merged;
  plan.tokens = plan.wire_tokens = order.tokens;
  plan.rows = order.rows;
  std::vector<std::vector<int64_t>> slots_to;
  const auto add = [&](int64_t c, const GroupedOrder& grouped) {
    slots_to.push_back(rows_to(order, c, ranks, 1));
    Chunk chunk;
    chunk.slots_begin = plan.chunks.empty() ? 0 : plan.chunks.back().slots_end;
    chunk.slots_end = chunk.slots_begin + sum_of(slots_to.back());
    chunk.wire_begin = chunk.slots_begin * fan;
    chunk.wire_end = chunk.slots_end * fan;
    chunk.splits.send = rows_to(order, c, ranks, fan);
    splits_of(chunk, counts, c, options, groups);
    chunk.place = placement(counts, c, options.spread, grouped, device);
    chunk.offsets = grouped.offsets;
    plan.chunks.push_back(std::move(chunk));
  };
  if (options.merged) {
    const GroupedOrder grouped(counts, 0, chunks);
    for (int64_t c = 0; c < chunks; ++c) add(c, grouped);
  } else {
    for (int64_t c = 0; c < chunks; ++c) add(c, GroupedOrder(counts, c, c + 1));
  }
  if (fan > 1) fan_out(plan, slots_to, fan, device);
  return plan;
}

}  // namespace hexad::ep
