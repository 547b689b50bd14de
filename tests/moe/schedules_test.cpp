// Every listed schedule gives the plain schedule's results, under random delays. Outputs and input gradients are
// bitwise identical if no computation changes its order; otherwise they agree up to rounding. The gradients of weights
// agree up to rounding, because they are sums of the same numbers, added by chunk.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "framework/base/tolerance.h"
#include "framework/schedule/graph_runner.h"
#include "layers/moe/pass/routes.h"
#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"
#include "tests/moe/paper_letters.h"
#include "tests/moe/scheduled_layer.h"
#include "tests/training/test_folder.h"

namespace hexad::tests {

using namespace base;
namespace {

struct Mesh4 {
  std::string name;
  Words overrides;
};
const Mesh4 meshes[] = {{"Ep1", {}},
                        {"Ep4", {"parallel.ep=4"}},
                        {"Tp2Ep2Etp2", {"parallel.tp=2", "parallel.ep=2"}},
                        {"Tp4Ep2Etp2", {"parallel.tp=4", "parallel.ep=2", "parallel.etp=2"}},
                        {"Tp2Ep4Etp1", {"parallel.tp=2", "parallel.ep=4", "parallel.etp=1"}},
                        {"Tp2Ep1Etp1", {"parallel.tp=2", "parallel.etp=1"}},
                        {"Tp1Ep2Etp2", {"parallel.ep=2", "parallel.etp=2"}},
                        {"Tp2SpEp2Etp2", {"parallel.tp=2", "parallel.sp=true", "parallel.ep=2"}}};

struct Schedule {
  std::string name;
  Words overrides;
  enum class Bits : uint8_t { all, forward, none } same = Bits::all;  // results that must be bitwise identical
  bool without_sp = false, needs_etp_in_tp = false;
};
constexpr auto forward_only = Schedule::Bits::forward, other_sums = Schedule::Bits::none;

std::vector<Schedule> schedules() {
  const std::string moe = "schedule.moe.";
  const auto cut = [&](const std::string& by, int parts) {
    return Words{moe + "chunk_by=" + by, moe + "chunks=" + std::to_string(parts)};
  };
  const Words o2{moe + "overlap=a2a_allgather", moe + "chunks=2"},
      o3{moe + "overlap=a2a_allgather_copy", moe + "chunks=3"};
  const Words drop{moe + "duplicates=drop"}, direct{moe + "esp_exchange=direct"};
  const Words phases{moe + "overlap=a2a_allgather", moe + "chunks=4"};
  const Words of_tokens{moe + "rows=token"}, s2{moe + "duplicates=pause_after_gate", moe + "esp_exchange=direct"};
  const Words in_sequence{moe + "overlap=none"};
  const Words shadow{moe + "hot_experts=shadow", moe + "hot_load=1"}, s4{moe + "memory_reuse=s4"};
  return {{"Drop", drop},
          {"S1", direct},
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
          {"TokensDirect", joined(direct, cut("tokens", 5))},
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
          {"ReuseS4Direct", joined(joined({moe + "memory_reuse=s4"}, direct), cut("tokens", 3)), forward_only},
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
          {"ShadowS1", joined(shadow, direct)},
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
          {"OfTokensDirect", joined(of_tokens, direct), other_sums},
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
          {"OfTokensExpertsDirect", joined(of_tokens, joined(direct, cut("experts", 2))), other_sums},
          {"OfTokensExpertsDrop", joined(of_tokens, joined(drop, cut("experts", 2))), other_sums},
          {"OfTokensExpertsReplicated", joined(of_tokens, joined({moe + "duplicates=replicated"}, cut("experts", 2))),
           other_sums, true, true},
          {"OfTokensReuseS1", joined(of_tokens, joined({moe + "memory_reuse=s1"}, cut("tokens", 3))), other_sums},
          {"OfTokensReuseS4", joined(of_tokens, joined({moe + "memory_reuse=s4"}, cut("tokens", 3))), other_sums},
          {"OfTokensReuseS2Direct", joined(of_tokens, joined({moe + "memory_reuse=s2"}, direct)), other_sums}};
}

// True if tensor-parallel ranks compute the same rows. If these ranks also have the same experts, their gradients
// differ from those of the plain schedule, and only the sums over ranks are equal.
bool computes_copies(const Schedule& s) {
  return std::ranges::any_of(s.overrides, [](const std::string& word) {
    return word.ends_with("duplicates=baseline") || word.ends_with("duplicates=replicated");
  });
}

bool possible(const Schedule& s, const Mesh4& m) {
  if (m.name == "Tp2Ep1Etp1" && computes_copies(s)) return false;
  const bool sp = m.name.find("Sp") != std::string::npos;
  return !(s.without_sp && sp) && !(s.needs_etp_in_tp && m.name == "Tp1Ep2Etp2");
}

void expect_same(const ScheduledLayer::Result& plain, const ScheduledLayer::Result& other, Schedule::Bits bits) {
  const double rounding = tolerance(Dtype::f64, 4096);
  if (bits == Schedule::Bits::none)
    expect_close(plain.y, other.y, rounding);
  else
    expect_bitwise(plain.y, other.y);
  if (bits == Schedule::Bits::all)
    expect_bitwise(plain.dx, other.dx);
  else
    expect_close(plain.dx, other.dx, rounding);
  for (size_t i = 0; i < plain.gradients.size(); ++i)
    expect_close(plain.gradients[i], other.gradients[i], rounding, Zeros::expected);
  EXPECT_EQ(plain.statistics.counts, other.statistics.counts);
  EXPECT_EQ(plain.statistics.dropped, other.statistics.dropped);
}

struct Load {
  std::string name;
  Words overrides;
};
void PrintTo(const Load& l, std::ostream* out) { *out << l.name; }

// Returns the results by rank.
std::vector<ScheduledLayer::Result> results(const Words& overrides) {
  const comm::ThreadOptions late{.jitter = {.seed = 7, .max_delay = std::chrono::microseconds(200)}};
  std::vector<ScheduledLayer::Result> all(4);
  comm::with_ranks(
      4, [&](const comm::ProcessGroup& world) { all[world.rank()] = ScheduledLayer(world, overrides).run(); }, late);
  return all;
}

void compare(const Mesh4& m, const Words& load) {
  const Words common = joined(m.overrides, load);
  const auto plain = results(common);
  for (const Schedule& s : schedules()) {
    if (!possible(s, m)) continue;
    SCOPED_TRACE(m.name + " " + s.name);
    const auto other = results(joined(common, s.overrides));
    for (size_t rank = 0; rank < plain.size(); ++rank) expect_same(plain[rank], other[rank], s.same);
  }
}

class EverySchedule : public testing::TestWithParam<Load> {};

// True for the meshes on which every load runs. The other meshes run with the default load only.
bool is_telling(const Mesh4& m) { return m.name == "Ep4" || m.name == "Tp2Ep1Etp1" || m.name == "Tp4Ep2Etp2"; }

TEST_P(EverySchedule, EqualsThePlainSchedule) {
  for (const Mesh4& m : meshes)
    if (GetParam().overrides.empty() || is_telling(m)) compare(m, GetParam().overrides);
}

const Load loads[] = {{"Routed", {}},
                      {"R1_Capacity", {"model.moe.capacity_factor=0.8"}},
                      {"BiasesAndGelu", {"model.bias=true", "model.moe.expert=gelu"}},
                      {"Zipf", {"model.moe.routing=zipf", "model.moe.zipf_exponent=2"}}};
INSTANTIATE_TEST_SUITE_P(, EverySchedule, testing::ValuesIn(loads), [](const auto& i) { return i.param.name; });

// Experts 1 to 7 get no row. Ranks without expert 0 get none.
TEST(Schedules, F26_EqualThePlainScheduleIfEveryTokenChoosesOneExpert) {
  const Scratch scratch;
  std::ofstream(scratch / "trace") << "0\n";
  for (const Mesh4& m : meshes)
    if (is_telling(m))
      compare(m, {"model.moe.top_k=1", "model.moe.normalize=false", "model.moe.routing=trace",
                  "model.moe.trace=" + scratch / "trace"});
}

// Gradients of weights and recomputed values are also bitwise identical, because only the GEMM calls differ.
TEST(Schedules, WithDenseGemmsEqualThoseWithGroupedGemmsBitwise) {
  const Words cut{"parallel.ep=2", "parallel.etp=2", "model.moe.routing=zipf", "schedule.moe.chunk_by=tokens",
                  "schedule.moe.chunks=3"};
  comm::with_ranks(4, [&](const comm::ProcessGroup& world) {
    for (const char* reuse : {"schedule.moe.memory_reuse=none", "schedule.moe.memory_reuse=s4"})
      for (const Words& gemms :
           {Words{"schedule.moe.gemms=dense"}, Words{"schedule.moe.gemms=by_load", "schedule.moe.dense_rows=2"}}) {
        const auto grouped = ScheduledLayer(world, joined(cut, {reuse})).run();
        const auto other = ScheduledLayer(world, joined(joined(cut, {reuse}), gemms)).run();
        expect_bitwise(grouped.y, other.y);
        expect_bitwise(grouped.dx, other.dx);
        for (size_t i = 0; i < other.gradients.size(); ++i) expect_bitwise(grouped.gradients[i], other.gradients[i]);
      }
  });
}

// EPS-MoE's LocalReduce over expert groups: a rank adds up a token's results in the order of the token's slots, also if
// the experts are in groups.
TEST(Schedules, OfTokenRowsInExpertGroupsEqualThoseInOneGroupBitwise) {
  const Words of_tokens{"schedule.moe.rows=token"}, groups{"schedule.moe.chunk_by=experts", "schedule.moe.chunks=2"};
  for (const Mesh4& m : meshes) {
    SCOPED_TRACE(m.name);
    const auto one = results(joined(m.overrides, of_tokens)),
               two = results(joined(joined(m.overrides, of_tokens), groups));
    for (size_t rank = 0; rank < one.size(); ++rank) {
      expect_bitwise(one[rank].y, two[rank].y);
      expect_bitwise(one[rank].dx, two[rank].dx);
    }
  }
}

// DeepSpeed-MoE's padding increases the bytes and changes no result.
TEST(Schedules, WithPaddingEqualThoseWithout) {
  const std::string moe = "schedule.moe.";
  const Words padded{moe + "capacity_padding=full"},
      s2{moe + "duplicates=pause_after_gate", moe + "esp_exchange=direct"};
  const Words ways[] = {{},
                        {moe + "duplicates=baseline"},
                        {moe + "duplicates=drop"},
                        {moe + "esp_exchange=direct"},
                        s2,
                        joined(s2, {moe + "overlap=a2a_allgather", moe + "chunks=2"})};
  for (const Mesh4& m : meshes) {
    if (m.name.find("Sp") != std::string::npos || m.name == "Tp2Ep1Etp1") continue;
    for (const Words& way : ways) {
      SCOPED_TRACE(m.name + " " + testing::PrintToString(way));
      const Words common = joined(joined(m.overrides, {"model.moe.capacity_factor=1.3"}), way);
      const auto plain = results(common), other = results(joined(common, padded));
      for (size_t rank = 0; rank < plain.size(); ++rank) expect_same(plain[rank], other[rank], Schedule::Bits::all);
    }
  }
}

// Parm, equation 1: with the capacity factor f, y = f k B L M N_ESP elements are exchanged.
TEST(Schedules, WithPaddingSendTheCapacityFactorTimesAsManyBytes) {
  const auto sent = [](const Words& more) {
    double bytes = 0;
    on_ranks(4, [&](const comm::ProcessGroup& world) {
      ScheduledLayer lab(world, joined({"parallel.ep=4", "model.moe.routing=balanced"}, more));
      schedule::GraphCollector collector;
      lab.layer.run_passes_by(&collector);
      lab.run(4, 4);
      if (world.rank() != 0) return;
      for (const schedule::Task& task : collector.graphs.front().tasks())
        if (task.spec.kind == schedule::TaskKind::all_to_all) bytes += static_cast<double>(task.spec.cost.wire_bytes);
    });
    return bytes;
  };
  const double plain = sent({});
  EXPECT_GT(plain, 0);
  EXPECT_EQ(sent({"model.moe.capacity_factor=1.5", "schedule.moe.capacity_padding=full"}), 1.5 * plain);
}

TEST(Schedules, ByLoadUseDenseGemmsFromAMeanRowCountPerActiveExpert) {
  using moe::Gemms;
  const auto is_dense = [](Gemms gemms, std::optional<int64_t> rows, std::vector<int64_t> offsets) {
    moe::MoeSchedule s;
    s.gemms = gemms, s.dense_rows = rows;
    return s.is_dense(offsets);
  };
  EXPECT_TRUE(is_dense(Gemms::by_load, 4, {0, 7, 7, 8}));  // 8 rows of two experts
  EXPECT_FALSE(is_dense(Gemms::by_load, 4, {0, 6, 6, 7}));
  EXPECT_FALSE(is_dense(Gemms::by_load, {}, {0, 7, 7, 8}));
  EXPECT_FALSE(is_dense(Gemms::by_load, 1, {0, 0, 0}));
  EXPECT_FALSE(is_dense(Gemms::grouped, {}, {0, 100000}));
  EXPECT_TRUE(is_dense(Gemms::dense, {}, {0, 0, 1}));
}

// The layer decides for each chunk separately.
TEST(Schedules, ChooseDenseOrGroupedForEachChunk) {
  moe::Routes routes{};
  routes.plan.counts.chunks.resize(2), routes.plan.indices.chunks.resize(2);
  routes.plan.counts.chunks[0].offsets = {0, 3, 6}, routes.plan.counts.chunks[1].offsets = {0, 0, 2};
  routes.settings.schedule.gemms = moe::Gemms::by_load, routes.settings.schedule.dense_rows = 3;
  EXPECT_TRUE(routes.groups(0).dense);
  EXPECT_FALSE(routes.groups(1).dense);
  EXPECT_EQ(routes.groups(1).rows.host.back(), 2);
}

// Backward mirrors forward. Backward also gathers the gradients for the gate, either in the pass or after it.
TEST(Schedules, EveryCollectiveOfParmsS1AndS2IsATask) {
  const auto graphs = [](const Words& duplicates) {
    std::vector<std::string> texts;
    on_ranks(4, [&](const comm::ProcessGroup& world) {
      ScheduledLayer lab(world,
                         joined({"parallel.tp=2", "parallel.ep=2", "schedule.moe.esp_exchange=direct"}, duplicates));
      schedule::GraphCollector collector;
      lab.layer.run_passes_by(&collector);
      lab.run();
      if (world.rank() == 0)
        for (const schedule::TaskGraph& g : collector.graphs) texts.push_back(in_letters(g.to_string()));
    });
    return texts;
  };
  const std::string there_and_back = "inter: S0(P0) R0(U0) | intra: X(T)", tasks = "P0 D0(S0) C0(D0) U0(C0)";
  EXPECT_EQ(graphs({"schedule.moe.duplicates=pause_before_gate"}),
            (Words{there_and_back + " | copy: L0(R0) | compute: " + tasks + " T(L0)",
                   "inter: S0(P0) R0(U0) | copy: L0(R0) | compute: " + tasks + " W0(C0)", "intra: Z"}));
  EXPECT_EQ(graphs({"schedule.moe.duplicates=pause_after_gate"}),
            (Words{there_and_back + " | copy: L0(R0) | compute: " + tasks + " T(L0)",
                   there_and_back + " Y(T) | copy: L0(R0) T(L0) | compute: " + tasks + " W0(C0)"}));
  // Under memory reuse, each chunk's tokens are summed when their rows have returned (L), and then gathered.
  EXPECT_EQ(
      graphs({"schedule.moe.duplicates=pause_after_gate", "schedule.moe.memory_reuse=s4"}),
      (Words{"inter: S0(P0) R0(U0) | intra: X(L0) | copy: P0 L0(R0) | compute: D0(S0) C0(D0) U0(C0)",
             "inter: S'0(P'0) S0(P0) R0(U0) | intra: X(L0) Y(L0) | copy: P'0 P0 L0(R0) | compute: D'0(S'0) D0(S0) "
             "C0(D0,D'0) U0(C0)"}));
  // Rows are sent in one all-to-all, and return in phases. With four phases, the two addends of a row return in two
  // phases, and are then summed and gathered.
  const auto saa = [&](int phases) {
    return graphs({"schedule.moe.duplicates=pause_after_gate", "schedule.moe.overlap=a2a_allgather",
                   cat("schedule.moe.chunks=", phases)});
  };
  const std::string two = "inter: S0(P0) R0(U0) R1(U0) | intra: X0(L0) X1(L1)", copies = " | copy: L0(R0) L1(R1)";
  EXPECT_EQ(saa(2), (Words{two + copies + " | compute: " + tasks,
                           two + " Y(L0,L1)" + copies + " | compute: " + tasks + " W0(C0)"}));
  const std::string four = "inter: S0(P0) R0(U0) R1(U0) R2(U0) R3(U0) | intra: X0(L0) X1(L1)",
                    of_four = " | copy: L0(R0,R1) L1(R2,R3)";
  EXPECT_EQ(saa(4), (Words{four + of_four + " | compute: " + tasks,
                           four + " Y(L0,L1)" + of_four + " | compute: " + tasks + " W0(C0)"}));
}

void expect_same_bits(const ScheduledLayer::Result& a, const ScheduledLayer::Result& b) {
  expect_bitwise(a.y, b.y);
  expect_bitwise(a.dx, b.dx);
  for (size_t i = 0; i < a.gradients.size(); ++i) expect_bitwise(a.gradients[i], b.gradients[i], Zeros::expected);
}

// Compares the layer under a one-step and a two-step all-to-all, with equal settings otherwise.
void compare_all_to_alls(const Words& overrides, const std::vector<int>& node_of_rank) {
  const comm::ThreadOptions late{.node_of_rank = node_of_rank,
                                 .jitter = {.seed = 7, .max_delay = std::chrono::microseconds(200)}};
  comm::with_ranks(
      static_cast<int>(node_of_rank.size()),
      [&](const comm::ProcessGroup& world) {
        const auto direct = ScheduledLayer(world, overrides).run();
        const auto two = ScheduledLayer(world, joined(overrides, {"schedule.moe.all_to_all=hierarchical"})).run();
        expect_same_bits(direct, two);
      },
      late);
}

TEST(Schedules, GiveTheSameBitsWhenRowsAreSentInTwoSteps) {
  const std::vector<int> node_of_rank{0, 0, 1, 1};
  for (const Mesh4& m : meshes)
    for (const Schedule& s : schedules()) {
      if (!possible(s, m)) continue;
      SCOPED_TRACE(m.name + " " + s.name);
      compare_all_to_alls(joined(m.overrides, s.overrides), node_of_rank);
    }
}

// fp8 rounds rows before they are sent, and not again in transit.
TEST(Schedules, InTwoStepsGiveTheSameBitsOnAnyNodes) {
  const std::vector<int> topologies[] = {{0, 0, 0, 0, 1, 1, 1, 1},
                                         {0, 0, 1, 1, 2, 2, 3, 3},
                                         {0, 1, 0, 1, 1, 0, 1, 0},
                                         {0, 1, 2, 3, 4, 5, 6, 7},
                                         {0, 0, 0, 0, 0, 0, 0, 0}};
  const Words ways[] = {
      {},
      {"schedule.moe.wire=fp8"},
      {"schedule.moe.rows=token", "schedule.moe.wire=fp8"},
      {"schedule.moe.chunk_by=tokens", "schedule.moe.chunks=5"},
      {"schedule.moe.memory_reuse=s4", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=3"},
      {"model.moe.top_k=1", "model.moe.normalize=false", "model.moe.routing=zipf", "model.moe.zipf_exponent=4"}};
  for (const auto& nodes : topologies)
    for (const Words& way : ways) {
      SCOPED_TRACE(testing::PrintToString(nodes) + " " + testing::PrintToString(way));
      compare_all_to_alls(joined({"parallel.ep=8"}, way), nodes);
    }
  for (const Words& way : ways) {
    SCOPED_TRACE(testing::PrintToString(way));
    compare_all_to_alls(joined({"parallel.ep=4", "parallel.etp=2"}, way), topologies[0]);
    compare_all_to_alls(joined({"parallel.ep=2", "parallel.etp=4", "schedule.moe.esp_exchange=direct"}, way),
                        topologies[0]);
  }
}

// Returns the message that refuses two-step sending for groups of four ranks on these nodes.
std::string refusal_of_two_steps(const std::vector<int>& node_of_rank) {
  const Words two{"parallel.ep=4", "schedule.moe.all_to_all=hierarchical"};
  try {
    comm::with_ranks(static_cast<int>(node_of_rank.size()),
                     [&](const comm::ProcessGroup& world) { ScheduledLayer(world, two).run(); },
                     {.node_of_rank = node_of_rank});
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::usage);
    return e.what();
  }
  return "not refused";
}

TEST(Schedules, InTwoStepsAreRefusedOnNodesWithUnequalRanks) {
  EXPECT_EQ(refusal_of_two_steps({0, 0, 0, 1}),
            "schedule.moe.all_to_all is hierarchical, which needs the same number of ranks on each node of an "
            "all-to-all, but the all-to-all of rank 0 (4 ranks) has 3, 1 ranks on its 2 nodes; legal here: direct");
}

// Ranks in such groups would issue different numbers of tasks.
TEST(Schedules, InTwoStepsAreRefusedIfOnlySomeGroupsHaveTwoLevels) {
  EXPECT_EQ(refusal_of_two_steps({0, 0, 0, 0, 0, 0, 1, 1}),
            "schedule.moe.all_to_all is hierarchical, which needs all groups of ep ranks to be placed on nodes "
            "in the same way, but the group of rank 4 has two levels and another group has one; legal here: direct");
}

const std::string by_window = "schedule.moe.all_to_all=window";

// Returns the number of bytes of the layer's windows.
int64_t window_bytes(const ScheduledLayer& layer) { return layer.mesh.ep_windows().bytes(); }

TEST(Schedules, GiveTheSameBitsThroughWindows) {
  const comm::ThreadOptions late{.jitter = {.seed = 7, .max_delay = std::chrono::microseconds(200)}};
  const Words allowed{"Drop",        "S1",           "Baseline",         "Replicated",     "Tokens3",
                      "Tokens64",    "TokensDirect", "TokensDrop",       "Nodes",          "Experts",
                      "WeightsLast", "ReturnsLast",  "TokensInSequence", "BaselineTokens", "DenseExperts"};
  std::set<std::string> compared;
  for (const Mesh4& m : meshes)
    for (const Schedule& s : schedules()) {
      const bool one_etp = m.name == "Ep4" || m.name == "Tp2Ep4Etp1";
      if (!one_etp || !possible(s, m) || std::ranges::find(allowed, s.name) == allowed.end()) continue;
      SCOPED_TRACE(m.name + " " + s.name);
      compared.insert(s.name);
      const Words overrides = joined(m.overrides, s.overrides);
      comm::with_ranks(
          4,
          [&](const comm::ProcessGroup& world) {
            ScheduledLayer windows(world, joined(overrides, {by_window}));
            expect_same_bits(ScheduledLayer(world, overrides).run(), windows.run());
            EXPECT_GT(window_bytes(windows), 0);
          },
          late);
    }
  EXPECT_EQ(compared.size(), allowed.size());
}

// The second batch has more rows than the windows can hold, so its rows are sent as messages. For the third batch, the
// windows have grown.
TEST(Schedules, GiveTheSameBitsWhenWindowsOverflow) {
  const Words ep4{"parallel.ep=4"};
  comm::with_ranks(4, [&](const comm::ProcessGroup& world) {
    ScheduledLayer direct(world, ep4), windows(world, joined(ep4, {by_window}));
    expect_same_bits(direct.run(1), windows.run(1));
    const int64_t first = window_bytes(windows);
    for (int step = 0; step < 2; ++step) {
      for (const auto& p : direct.parameters) p->clear_gradient();
      for (const auto& p : windows.parameters) p->clear_gradient();
      expect_same_bits(direct.run(40), windows.run(40));
      EXPECT_EQ(window_bytes(windows) > first, step == 1);
      windows.mesh.ep_windows().grow();
    }
  });
}

TEST(Schedules, AreRefusedWindowsAcrossNodes) {
  try {
    comm::with_ranks(4,
                     [](const comm::ProcessGroup& world) {
                       ScheduledLayer(world, {"parallel.ep=4", by_window}).run();
                     },
                     {.node_of_rank = {0, 0, 1, 1}});
    ADD_FAILURE() << "not refused";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::usage);
    EXPECT_STREQ(e.what(),
                 "schedule.moe.all_to_all is window, which needs all ep ranks of a group on one node, but the group of "
                 "rank 0 (4 ranks) is on several nodes; legal here: direct, hierarchical");
  }
}

// Gradients of weights are also bitwise identical, because every order adds them in the order of the chunks.
TEST(Schedules, GiveTheSameBitsInEveryOrder) {
  const Words chunks{"parallel.ep=4", "schedule.moe.chunk_by=tokens", "schedule.moe.chunks=4"};
  comm::with_ranks(4, [&](const comm::ProcessGroup& world) {
    const auto alternating = ScheduledLayer(world, chunks).run();
    for (const moe::IssueOrder& order : moe::built_in_orders()) {
      const auto other = ScheduledLayer(world, joined(chunks, {"schedule.moe.order=" + order.name})).run();
      expect_bitwise(alternating.y, other.y);
      expect_bitwise(alternating.dx, other.dx);
      for (size_t i = 0; i < other.gradients.size(); ++i) expect_bitwise(alternating.gradients[i], other.gradients[i]);
    }
  });
}

}  // namespace
}  // namespace hexad::tests
