// Schedules of MoE layers whose results must equal the plain schedule's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/moe/scheduled_layer.h"

namespace hexad::tests {

/// Mesh of four ranks.
struct Mesh4 {
  std::string name;
  Words overrides;
};
inline const Mesh4 meshes[] = {{"Ep1", {}},
                               {"Ep4", {"parallel.ep=4"}},
                               {"Tp2Ep2Etp2", {"parallel.tp=2", "parallel.ep=2"}},
                               {"Tp4Ep2Etp2", {"parallel.tp=4", "parallel.ep=2", "parallel.etp=2"}},
                               {"Tp2Ep4Etp1", {"parallel.tp=2", "parallel.ep=4", "parallel.etp=1"}},
                               {"Tp2Ep1Etp1", {"parallel.tp=2", "parallel.etp=1"}},
                               {"Tp1Ep2Etp2", {"parallel.ep=2", "parallel.etp=2"}},
                               {"Tp2SpEp2Etp2", {"parallel.tp=2", "parallel.sp=true", "parallel.ep=2"}}};

/// Schedule, and the results that must be bitwise identical to the plain schedule's.
struct Schedule {
  std::string name;
  Words overrides;
  enum class Bits : uint8_t { all, forward, none } same = Bits::all;
  bool without_sp = false, needs_etp_in_tp = false;
};
inline constexpr auto forward_only = Schedule::Bits::forward, other_sums = Schedule::Bits::none;

inline std::vector<Schedule> schedules() {
  const std::string moe = "schedule.moe.";
  const auto cut = [&](const std::string& by, int parts) {
    return Words{moe + "chunk_by=" + by, moe + "chunks=" + std::to_string(parts)};
  };
  const Words o2{moe + "overlap=a2a_allgather", moe + "chunks=2"},
      o3{moe + "overlap=a2a_allgather_copy", moe + "chunks=3"};
  const Words drop{moe + "duplicates=drop"}, esp_direct{moe + "esp_exchange=direct"};
  const Words phases{moe + "overlap=a2a_allgather", moe + "chunks=4"};
  const Words of_tokens{moe + "rows=token"}, s2{moe + "duplicates=pause_after_gate", moe + "esp_exchange=direct"};
  const Words in_sequence{moe + "overlap=none"};
  const Words shadow{moe + "hot_experts=shadow", moe + "hot_load=1"}, s4{moe + "memory_reuse=s4"};
  return {{"Drop", drop},
          {"S1", esp_direct},
          {"S2", s2, Schedule::Bits::all, true},
          {"S2Saa", joined(s2, o2), Schedule::Bits::all, true},
          {"S2SaaInAPhaseForEachRank", joined(s2, phases), Schedule::Bits::all, true},
          {"S2SaaGather", joined({moe + "duplicates=pause_after_gate"}, o2), Schedule::Bits::all, true},
          {"Baseline", {moe + "duplicates=baseline"}},
          {"Replicated", {moe + "duplicates=replicated"}, Schedule::Bits::all, true, true},
          {"O2", joined(drop, o2)},
          {"O3", joined(drop, o3)},
          {"Tokens3", cut("tokens", 3)},
          {"Tokens64", cut("tokens", 64)},
          {"TokensEspDirect", joined(esp_direct, cut("tokens", 5))},
          {"TokensDrop", joined(drop, cut("tokens", 2))},
          {"Nodes", cut("nodes", 2)},
          {"Experts", cut("experts", 2)},
          {"WeightsLast", joined(cut("tokens", 4), {moe + "order=weights_last"})},
          {"ReturnsLast", joined(cut("tokens", 4), {moe + "order=returns_last"})},
          {"NodesReturnLast", joined(cut("nodes", 2), {moe + "order=returns_last"})},
          {"ExpertsWeightsLast", joined(cut("experts", 2), {moe + "order=weights_last"})},
          {"TokensInSequence", joined(cut("tokens", 3), in_sequence)},
          {"NodesInSequence", joined(cut("nodes", 2), in_sequence)},
          {"ExpertsInSequence", joined(cut("experts", 2), in_sequence)},
          {"ReuseS1InSequence", joined(joined({moe + "memory_reuse=s1"}, cut("tokens", 3)), in_sequence), forward_only},
          {"ShadowTokensInSequence", joined(joined(shadow, cut("tokens", 3)), in_sequence)},
          {"OfTokensExpertsInSequence", joined(joined(of_tokens, cut("experts", 2)), in_sequence), other_sums},
          {"BaselineTokens", joined({moe + "duplicates=baseline"}, cut("tokens", 3))},
          {"Dense", {moe + "gemms=dense"}},
          {"DenseExperts", joined({moe + "gemms=dense"}, cut("experts", 2))},
          {"ByLoadTokens", joined({moe + "gemms=by_load", moe + "dense_rows=2"}, cut("tokens", 3))},
          {"DenseReuseS4", joined({moe + "gemms=dense", moe + "memory_reuse=s4"}, cut("tokens", 3)), forward_only},
          {"DenseOfTokens", joined({moe + "gemms=dense"}, of_tokens), other_sums},
          {"ReuseS1", joined({moe + "memory_reuse=s1"}, cut("tokens", 3)), forward_only},
          {"ReuseS2", joined({moe + "memory_reuse=s2"}, cut("tokens", 3)), forward_only},
          {"ReuseS3", joined({moe + "memory_reuse=s3"}, cut("tokens", 3)), forward_only},
          {"ReuseS4", joined({moe + "memory_reuse=s4"}, cut("tokens", 3)), forward_only},
          {"ReuseS1WeightsLast",
           joined(joined({moe + "memory_reuse=s1"}, cut("tokens", 3)), {moe + "order=weights_last"}), forward_only},
          {"ReuseS4ReturnsLast",
           joined(joined({moe + "memory_reuse=s4"}, cut("tokens", 2)), {moe + "order=returns_last"}), forward_only},
          {"ReuseS4EspDirect", joined(joined({moe + "memory_reuse=s4"}, esp_direct), cut("tokens", 3)), forward_only},
          {"ReuseS1Drop", joined(joined({moe + "memory_reuse=s1"}, drop), cut("tokens", 3)), forward_only},
          {"ReuseS4Drop", joined(joined(s4, drop), cut("tokens", 3)), forward_only},
          {"ReuseS4DropWhole", joined(s4, drop), forward_only},
          {"ReuseS2ParmS2", joined(joined({moe + "memory_reuse=s2"}, s2), cut("tokens", 3)), forward_only, true},
          {"ReuseS3Replicated", joined({moe + "memory_reuse=s3", moe + "duplicates=replicated"}, cut("tokens", 3)),
           forward_only, true, true},
          {"ReuseS4Replicated", joined(joined(s4, {moe + "duplicates=replicated"}), cut("tokens", 3)), forward_only,
           true, true},
          {"ShadowReuseS4Drop", joined(shadow, joined(joined(s4, drop), cut("tokens", 3))), forward_only},
          {"OfTokensReuseS4Drop", joined(of_tokens, joined(joined(s4, drop), cut("tokens", 3))), other_sums},
          {"ReuseS2Whole", {moe + "memory_reuse=s2"}, forward_only},
          {"Shadow", shadow},
          {"ShadowDrop", joined(shadow, drop)},
          {"ShadowS1", joined(shadow, esp_direct)},
          {"ShadowS2Saa", joined(shadow, joined(s2, o2)), Schedule::Bits::all, true},
          {"ShadowS2SaaInAPhaseForEachRank", joined(shadow, joined(s2, phases)), Schedule::Bits::all, true},
          {"ShadowDropTokens3", joined(shadow, joined(drop, cut("tokens", 3)))},
          {"ShadowBaseline", joined(shadow, {moe + "duplicates=baseline"})},
          {"ShadowReplicated", joined(shadow, {moe + "duplicates=replicated"}), Schedule::Bits::all, true, true},
          {"ShadowO3", joined(shadow, joined(drop, o3))},
          {"ShadowTokens3", joined(shadow, cut("tokens", 3))},
          {"ShadowNodes", joined(shadow, cut("nodes", 2))},
          {"ShadowExperts", joined(shadow, cut("experts", 2))},
          {"ShadowDense", joined(shadow, {moe + "gemms=dense"})},
          {"ShadowReuseS1", joined(shadow, joined({moe + "memory_reuse=s1"}, cut("tokens", 3))), forward_only},
          {"ShadowReuseS4", joined(shadow, joined(s4, cut("tokens", 3))), forward_only},
          {"ShadowReuseS4Dense", joined(shadow, joined(s4, {moe + "gemms=dense"})), forward_only},
          {"OfTokens", of_tokens, other_sums},
          {"OfTokensEspDirect", joined(of_tokens, esp_direct), other_sums},
          {"OfTokensS2Saa", joined(of_tokens, joined(s2, o2)), other_sums, true},
          {"OfTokensS2SaaInAPhaseForEachRank", joined(of_tokens, joined(s2, phases)), other_sums, true},
          {"OfTokensBaseline", joined(of_tokens, {moe + "duplicates=baseline"}), other_sums},
          {"OfTokensReplicated", joined(of_tokens, {moe + "duplicates=replicated"}), other_sums, true, true},
          {"OfTokensO2", joined(of_tokens, joined(drop, o2)), other_sums},
          {"OfTokensO3", joined(of_tokens, joined(drop, o3)), other_sums},
          {"OfTokensTokens3", joined(of_tokens, cut("tokens", 3)), other_sums},
          {"OfTokensNodes", joined(of_tokens, cut("nodes", 2)), other_sums},
          {"OfTokensExperts", joined(of_tokens, cut("experts", 2)), other_sums},
          {"OfTokensExpertsReturnLast", joined(of_tokens, joined(cut("experts", 2), {moe + "order=returns_last"})),
           other_sums},
          {"OfTokensExpertsEspDirect", joined(of_tokens, joined(esp_direct, cut("experts", 2))), other_sums},
          {"OfTokensExpertsDrop", joined(of_tokens, joined(drop, cut("experts", 2))), other_sums},
          {"OfTokensExpertsReplicated", joined(of_tokens, joined({moe + "duplicates=replicated"}, cut("experts", 2))),
           other_sums, true, true},
          {"OfTokensReuseS1", joined(of_tokens, joined({moe + "memory_reuse=s1"}, cut("tokens", 3))), other_sums},
          {"OfTokensReuseS4", joined(of_tokens, joined({moe + "memory_reuse=s4"}, cut("tokens", 3))), other_sums},
          {"OfTokensReuseS2EspDirect", joined(of_tokens, joined({moe + "memory_reuse=s2"}, esp_direct)), other_sums}};
}

/// True if tensor-parallel ranks compute the same rows. If these ranks also have the same experts, the gradients of
/// each rank differ from those under the plain schedule. Only the sums of the gradients over ranks are equal.
inline bool computes_copies(const Schedule& s) {
  return std::ranges::any_of(s.overrides, [](const std::string& word) {
    return word.ends_with("duplicates=baseline") || word.ends_with("duplicates=replicated");
  });
}

/// True if ranks of the mesh can execute the schedule, and if the results are comparable with those of the plain
/// schedule.
inline bool possible(const Schedule& s, const Mesh4& m) {
  if (m.name == "Tp2Ep1Etp1" && computes_copies(s)) return false;
  const bool sp = m.name.find("Sp") != std::string::npos;
  return !(s.without_sp && sp) && !(s.needs_etp_in_tp && m.name == "Tp1Ep2Etp2");
}

inline void expect_same_bits(const ScheduledLayer::Result& a, const ScheduledLayer::Result& b) {
  expect_bitwise(a.y, b.y);
  expect_bitwise(a.dx, b.dx);
  for (size_t i = 0; i < a.gradients.size(); ++i) expect_bitwise(a.gradients[i], b.gradients[i], Zeros::expected);
}

}  // namespace hexad::tests
