// Parm (Pan et al. 2024): closed forms of the communication of an MoE layer under model (MP), expert (EP) and
// expert-sharding (ESP) parallelism. Sizes are in elements. A collective of x elements costs alpha + beta * x seconds.
//
// Corrections, and choices where the paper has two conventions:
//   Algorithm 1    line 2 is T = k * f * B * L / E, without M, so that y = E * T * M * N_ESP
//   equation 13    keeps N_ESP, which the paper drops in the second line
//   equation 14    ends in an MP-AllGather, so it is S2 without overlap. Algorithm 1's alpha_o, beta_o price
//                  the overlapped pair of AlltoAll and AllGather. Here they depend on y/N_MP, as in equation
//                  14 (the AlltoAll's own size), not on y
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tools/plan/curves/least_squares.h"

namespace hexad::plan::parm {

struct Layer {
  double B = 1, L = 1, M = 1;  // sequences per GPU, tokens per sequence, embedding size
  double E = 1, k = 1, f = 1;  // experts, experts per token, capacity factor
  double N_MP = 1, N_EP = 1, N_ESP = 1;

  double T() const { return k * f * B * L / E; }  // tokens of one GPU per expert
  double BLM() const { return B * L * M; }
  double ETM() const { return E * T() * M; }
};

/// Costs of the baseline's collectives: ESP-AllGather, ESP-AllReduce, EP-AlltoAll.
struct BaselineCosts {
  AlphaBeta AG_ESP, AR_ESP, A2A_EP;
};
struct Costs {
  AlphaBeta AG_MP;                     // MP-AllGather
  AlphaBeta A2A;                       // EP&ESP-AlltoAll
  std::optional<AlphaBeta> overlap{};  // alpha_o, beta_o: overlapped EP&ESP-AlltoAll and MP-AllGather, for size y/N_MP
};

/// Times of the collectives of equation 1, Fig. 3(a): ESP-AllGather, EP-AlltoAll, ESP-AllReduce, EP-AlltoAll. ESP-Split
/// sends nothing in forward.
struct Baseline {
  double AG_ESP, AR_ESP, A2A_EP;  // seconds of one collective of each kind; A2A_EP runs twice
  double seconds() const { return AG_ESP + AR_ESP + 2 * A2A_EP; }
};
Baseline baseline(const Layer& layer, const BaselineCosts& costs);

/// Returns the seconds of S1: 2 * A2A(ETM * N_ESP/N_MP) + AG_MP(BLM) (equation 11, or 13). With N_MP = 1, this is
/// equation 2, which has no AllGather.
double s1_seconds(const Layer& layer, const Costs& costs);
/// Returns the seconds of S2, in which the second AlltoAll overlaps the AllGather (equation 7). The joint time of these
/// two collectives comes from Costs::overlap if it is given, otherwise from saa_seconds().
double s2_seconds(const Layer& layer, const Costs& costs);
/// Returns the seconds of S2 with the AllGather after the AlltoAll (the paper's AAS, the right-hand side of equation
/// 7).
double s2_sequential_seconds(const Layer& layer, const Costs& costs);
/// Returns the seconds of an AlltoAll in `phases` slices that overlaps an AllGather (section III-D). Each slice is
/// gathered while the next slice arrives.
double saa_seconds(double all_to_all, double all_gather, double phases);

enum class Schedule { s1, s2 };
constexpr std::string_view name_of(Schedule s) { return s == Schedule::s1 ? "S1" : "S2"; }
/// Returns S1 if it takes no longer than S2 (Algorithm 1).
Schedule choose(const Layer& layer, const Costs& costs);

/// A claim of section IV-B, evaluated for given costs. The costs contradict the paper's assumptions if a claim does not
/// hold.
struct Claim {
  std::string_view text;
  double smaller, larger;  // seconds; the claim is smaller <= larger
  bool holds() const { return smaller <= larger; }
};
/// Returns the claims of these equations:
/// - always: 3, 5
/// - if N_MP = 1: 6
/// - if N_MP > 1: 8 with 9 (one claim), 7, 10
///
/// In equation 5, the ReduceScatter costs half of the AllReduce.
std::vector<Claim> claims(const Layer& layer, const Costs& costs, const BaselineCosts& base);

/// Kind of the group to which neighbouring ranks belong.
enum class Inner { esp, ep };
/// Placement of the ranks of one EP&ESP group. Ranks are numbered node by node.
struct Placement {
  int64_t N_EP = 1, N_ESP = 1;
  int64_t ranks_per_node = 1;
  Inner inner = Inner::esp;
};

/// Returns the case of section IV-B. A group of one rank counts as inside its node.
/// - 1: all ranks are on one node
/// - 2: only ESP groups are inside nodes
/// - 3: only EP groups are inside nodes
/// - 4: neither ESP groups nor EP groups are inside nodes
int placement_case(const Placement& placement);

/// Elements that the busiest rank sends over each kind of link. The slower link determines the time.
struct Load {
  double intra = 0, inter = 0;
  std::string_view link() const { return inter > 0 ? "inter" : intra > 0 ? "intra" : "none"; }
};
/// Loads of links by collectives of `x` elements (x = ETM * N_ESP in equations 1 and 2). Every rank sends directly to
/// each of its peers:
/// - x/N_ESP elements in AG and RS of ESP; AR is RS followed by AG
/// - x/N_EP elements in EP-AlltoAll
/// - x/(N_EP * N_ESP) elements in EP&ESP-AlltoAll
struct Loads {
  Load AG_ESP, AR_ESP, A2A_EP, A2A;
};
Loads loads(const Placement& placement, double x);

}  // namespace hexad::plan::parm
