// Parm (Pan et al. 2024): closed forms of the communication of an MoE layer under model (MP), expert (EP) and
// expert-sharding (ESP) parallelism. Sizes are elements; a collective costs alpha + beta x seconds.
//
// Corrected, and conventions where the paper has two:
//   Algorithm 1    line 2 is T = k f B L/E, without M, so that y = E T M N_ESP
//   equation 13    drops N_ESP in its second line
//   equation 14    ends in an MP-AllGather: that is S2 without overlap. Algorithm 1's alpha_o, beta_o price
//                  the overlapped pair of AlltoAll and AllGather. They are taken here as equation 14 has them,
//                  over y/N_MP (the AlltoAll's own size), not over y
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tools/plan/least_squares.h"

namespace hexad::plan::parm {

struct Layer {
  double B = 1, L = 1, M = 1;  // sequences of a GPU, tokens each, embedding size
  double E = 1, k = 1, f = 1;  // experts, experts a token, capacity factor
  double N_MP = 1, N_EP = 1, N_ESP = 1;

  double T() const { return k * f * B * L / E; }  // tokens an expert takes from one GPU
  double BLM() const { return B * L * M; }
  double ETM() const { return E * T() * M; }
};

/// The baseline's collectives: ESP-AllGather, ESP-AllReduce, EP-AlltoAll.
struct BaselineCosts {
  AlphaBeta AG_ESP, AR_ESP, A2A_EP;
};
struct Costs {
  AlphaBeta AG_MP;                     // MP-AllGather
  AlphaBeta A2A;                       // EP&ESP-AlltoAll
  std::optional<AlphaBeta> overlap{};  // alpha_o, beta_o: EP&ESP-AlltoAll and MP-AllGather at once, over y/N_MP
};

/// Equation 1, Fig. 3(a): ESP-AllGather, EP-AlltoAll, ESP-AllReduce, EP-AlltoAll; ESP-Split sends nothing in forward.
struct Baseline {
  double AG_ESP, AR_ESP, A2A_EP;  // seconds of one each; A2A_EP happens twice
  double seconds() const { return AG_ESP + AR_ESP + 2 * A2A_EP; }
};
Baseline baseline(const Layer& layer, const BaselineCosts& costs);

/// Equation 11 (13): 2 A2A(ETM N_ESP/N_MP) + AG_MP(BLM); with N_MP = 1 equation 2, without an AllGather.
double s1_seconds(const Layer& layer, const Costs& costs);
/// Equation 7: the second AlltoAll overlaps the AllGather: their measured joint cost, or else saa_seconds of the two.
double s2_seconds(const Layer& layer, const Costs& costs);
/// S2 with the AllGather after the AlltoAll (the paper's AAS; the right side of equation 7).
double s2_sequential_seconds(const Layer& layer, const Costs& costs);
/// Section III-D: an AlltoAll in `phases` slices and an AllGather, each slice gathered while the next arrives.
double saa_seconds(double all_to_all, double all_gather, double phases);

enum class Schedule { s1, s2 };
constexpr std::string_view name_of(Schedule s) { return s == Schedule::s1 ? "S1" : "S2"; }
/// Algorithm 1: S1 when it takes no longer.
Schedule choose(const Layer& layer, const Costs& costs);

/// A claim that section IV-B proves, evaluated: it holds, or the measured costs contradict the paper's assumptions.
struct Claim {
  std::string_view text;
  double smaller, larger;  // seconds: the claim is smaller <= larger
  bool holds() const { return smaller <= larger; }
};
/// Equations 3, 5, 6 (N_MP = 1), 8 and 9, 10 (N_MP > 1). RS: half of the AllReduce, whose other half is an AllGather.
std::vector<Claim> claims(const Layer& layer, const Costs& costs, const BaselineCosts& base);

/// Placement of the ranks of one EP&ESP group, numbered node by node. Neighbours belong to one `inner` group.
enum class Inner { esp, ep };
struct Placement {
  int64_t N_EP = 1, N_ESP = 1;
  int64_t ranks_per_node = 1;
  Inner inner = Inner::esp;
};

/// Section IV-B's cases: 1 all ranks on one node; 2 ESP groups inside nodes, EP groups not; 3 the reverse; 4 neither.
/// A group of one rank lies inside its node.
int placement_case(const Placement& placement);

/// Elements that the busiest rank sends over each kind of link. Time is that of the slower one.
struct Load {
  double intra = 0, inter = 0;
  std::string_view link() const { return inter > 0 ? "inter" : intra > 0 ? "intra" : "none"; }
};
/// Loads of links by collectives of `x` elements (their argument in equations 1 and 2, ETM N_ESP), every rank sending
/// to each of its peers directly: AG and RS of ESP x/N_ESP to each, EP-AlltoAll x/N_EP, EP&ESP-AlltoAll x/(N_EP N_ESP).
/// AR is RS and AG.
struct Loads {
  Load AG_ESP, AR_ESP, A2A_EP, A2A;
};
Loads loads(const Placement& placement, double x);

}  // namespace hexad::plan::parm
