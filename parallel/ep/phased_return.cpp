#include "parallel/ep/phased_return.h"

#include "parallel/ep/offsets.h"

namespace hexad::ep {
namespace {

// Returns the largest legal number of phases up to `wanted` (ReturnOrder).
int possible_phases(int ep, int fan, int wanted) {
  if (ep == 1) return 1;
  if (wanted <= ep) return wanted;
  return wanted < ep * fan ? ep : ep * fan;
}

ReturnPhase phase_of(const ReturnOrder& order, const ReturnSite& at, int phase) {
  ReturnPhase out;
  const auto ranks = static_cast<int>(at.all.splits.send.size());
  int64_t begin = 0;
  for (int q = 0; q < ranks; ++q) {
    const int64_t sent = at.all.splits.send[q], received = at.all.splits.receive[q], end = begin + received;
    const bool from_me = order.phase(q, at.rank) == phase;
    out.splits.send.push_back(order.phase(at.rank, q) == phase ? sent : 0);
    out.splits.receive.push_back(from_me ? received : 0);
    if (from_me) out.leaving.add(begin, end);
    begin = end;
  }
  begin = 0;
  for (const int q : at.destinations) {
    const int64_t end = begin + at.all.splits.send[q];
    if (order.phase(at.rank, q) == phase) out.landing.add(begin, end);
    begin = end;
  }
  if (at.all.steps)
    out.steps = node_steps(at.grid, at.rank, [&](int source, int destination) {
      return order.phase(source, destination) == phase ? at.between(source, destination) : 0;
    });
  return out;
}

// Returns the distance from `from` to `to` in a ring of `size` elements.
int ring_distance(int from, int to, int size) { return (to - from + size) % size; }

}  // namespace

ReturnOrder::ReturnOrder(std::span<const int> node_of_rank, int fan, int phases)
    : grid_(node_of_rank),
      ep_(static_cast<int>(node_of_rank.size())),
      fan_(fan),
      phases_(possible_phases(ep_, fan, phases)) {}

int ReturnOrder::distance(int token, int expert) const {
  if (!grid_.two_levels()) return ring_distance(token, expert, ep_);
  return ring_distance(grid_.node(token), grid_.node(expert), grid_.nodes()) * grid_.places() +
         ring_distance(grid_.place(token), grid_.place(expert), grid_.places());
}

int ReturnOrder::phase(int token, int expert) const {
  const int of_set = set(token / fan_, expert / fan_);
  if (phases_ <= ep_) return of_set;
  return of_set * fan_ + ring_distance(token % fan_, expert % fan_, fan_);
}

PhasedReturn phased_return(const ReturnOrder& order, const ReturnSite& at) {
  PhasedReturn out;
  for (int f = 0; f < order.phases(); ++f) out.phases.push_back(phase_of(order, at, f));
  // Every slot row is sent to all `fan` ranks of its expert. Slot rows are sorted by ep rank.
  const auto ep = static_cast<int>(at.all.splits.send.size()) / at.fan;
  for (int set = 0; set < order.sets(); ++set) {
    const int first = order.first_phase(set);
    ReturnSet& of_set = out.sets.emplace_back(ReturnSet{first, first + order.phases_of_set(), {}});
    int64_t begin = 0;
    for (int p = 0; p < ep; ++p) {
      const int64_t end = begin + at.all.splits.send[p * at.fan];
      if (order.set(at.rank / at.fan, p) == set) of_set.slots.add(begin, end);
      begin = end;
    }
  }
  return out;
}

}  // namespace hexad::ep
