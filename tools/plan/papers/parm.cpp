#include "tools/plan/papers/parm.h"

#include <algorithm>

#include "framework/base/error.h"

namespace hexad::plan::parm {
namespace {

/// Returns the size of EP&ESP-AlltoAll in elements while model parallelism (MP) is paused.
double exchanged(const Layer& l) { return l.ETM() * l.N_ESP / l.N_MP; }

/// Returns the load of rank `self` of an EP&ESP group in a collective. The rank sends `each` elements to every other
/// member of a subgroup. `member` is true for the ranks of the subgroup.
template <class F>
Load sent(const Placement& p, int64_t self, double each, F member) {
  Load load;
  for (int64_t peer = 0; peer < p.N_EP * p.N_ESP; ++peer) {
    if (peer == self || !member(peer)) continue;
    (peer / p.ranks_per_node == self / p.ranks_per_node ? load.intra : load.inter) += each;
  }
  return load;
}

int64_t esp_index(const Placement& p, int64_t rank) { return p.inner == Inner::esp ? rank / p.N_ESP : rank % p.N_EP; }
int64_t ep_index(const Placement& p, int64_t rank) { return p.inner == Inner::esp ? rank % p.N_ESP : rank / p.N_EP; }

/// Returns the load of the busier rank. Compares the loads between nodes first, then the loads inside nodes.
Load busier(const Load& a, const Load& b) { return std::pair(a.inter, a.intra) < std::pair(b.inter, b.intra) ? b : a; }

}  // namespace

Baseline baseline(const Layer& l, const BaselineCosts& c) {
  const double y = l.ETM() * l.N_ESP;
  return {.AG_ESP = c.AG_ESP(l.BLM() * l.N_ESP), .AR_ESP = c.AR_ESP(y), .A2A_EP = c.A2A_EP(y)};
}

double s1_seconds(const Layer& l, const Costs& c) {
  return 2 * c.A2A(exchanged(l)) + (l.N_MP > 1 ? c.AG_MP(l.BLM()) : 0);
}

double s2_seconds(const Layer& l, const Costs& c) {
  const double one = c.A2A(exchanged(l));
  if (l.N_MP <= 1) return 2 * one;
  if (c.overlap) return one + (*c.overlap)(exchanged(l));
  return one + saa_seconds(one, c.AG_MP(l.ETM()), l.N_EP * l.N_ESP);
}

double s2_sequential_seconds(const Layer& l, const Costs& c) {
  return 2 * c.A2A(exchanged(l)) + (l.N_MP > 1 ? c.AG_MP(l.ETM()) : 0);
}

double saa_seconds(double all_to_all, double all_gather, double phases) {
  return std::max(all_to_all, all_gather) + std::min(all_to_all, all_gather) / phases;
}

Schedule choose(const Layer& l, const Costs& c) {
  return s1_seconds(l, c) <= s2_seconds(l, c) ? Schedule::s1 : Schedule::s2;
}

std::vector<Claim> claims(const Layer& l, const Costs& c, const BaselineCosts& base) {
  const double y = l.ETM() * l.N_ESP, fused = c.A2A(y), expert = base.A2A_EP(y);
  const double half_reduce = base.AR_ESP(y) / 2;
  std::vector<Claim> list{{"(3) A2A_EP&ESP <= AG_ESP + A2A_EP", fused, base.AG_ESP(y) + expert},
                          {"(5) A2A_EP&ESP <= RS_ESP + A2A_EP", fused, half_reduce + expert}};
  const double before = baseline(l, base).seconds();
  if (l.N_MP <= 1) {
    list.push_back({"(6) AG_ESP(BLM N_ESP) <= t_B - t_D", base.AG_ESP(l.BLM() * l.N_ESP), before - 2 * fused});
  } else {
    list.push_back({"(8, 9) AG_MP <= A2A_EP&ESP", c.AG_MP(l.ETM()), c.A2A(l.ETM())});
    list.push_back({"(7) t_D2 <= t_D2 without overlap", s2_seconds(l, c), s2_sequential_seconds(l, c)});
    list.push_back({"(10) t_D2 <= t_B", s2_seconds(l, c), before});
  }
  return list;
}

int placement_case(const Placement& p) {
  base::require(p.N_EP >= 1 && p.N_ESP >= 1 && p.ranks_per_node >= 1, "[parm] N_EP is ", p.N_EP, ", N_ESP is ", p.N_ESP,
                " and ranks_per_node is ", p.ranks_per_node, "; expected at least 1 of each");
  const Loads all = loads(p, 1);
  const bool esp_inside = all.AG_ESP.inter == 0, ep_inside = all.A2A_EP.inter == 0;
  if (all.A2A.inter == 0) return 1;
  return esp_inside ? 2 : ep_inside ? 3 : 4;
}

Loads loads(const Placement& p, double x) {
  const auto ep = static_cast<double>(p.N_EP), esp = static_cast<double>(p.N_ESP);
  Loads all;
  for (int64_t self = 0; self < p.N_EP * p.N_ESP; ++self) {
    const auto in_esp = [&](int64_t peer) { return esp_index(p, peer) == esp_index(p, self); };
    const auto in_ep = [&](int64_t peer) { return ep_index(p, peer) == ep_index(p, self); };
    all.AG_ESP = busier(all.AG_ESP, sent(p, self, x / esp, in_esp));
    all.AR_ESP = busier(all.AR_ESP, sent(p, self, 2 * x / esp, in_esp));
    all.A2A_EP = busier(all.A2A_EP, sent(p, self, x / ep, in_ep));
    all.A2A = busier(all.A2A, sent(p, self, x / (ep * esp), [](int64_t) { return true; }));
  }
  return all;
}

}  // namespace hexad::plan::parm
