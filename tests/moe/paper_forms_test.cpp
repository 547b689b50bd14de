// Compares the papers' closed forms with the simulator on this program's graphs. On an ideal machine, a form and the
// simulator agree if both describe nearly the same schedule. The test states the difference and its reason if the form
// and the simulator differ.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "framework/schedule/graph_runner.h"
#include "framework/schedule/simulator.h"
#include "tests/moe/scheduled_layer.h"
#include "tools/plan/papers/eps.h"
#include "tools/plan/papers/monta.h"
#include "tools/plan/papers/mpmoe.h"
#include "tools/plan/papers/parm.h"
#include "tools/plan/rank_graphs.h"

namespace hexad::tests {

using namespace base;
namespace {

using schedule::Rates;
using schedule::TaskKind;
using schedule::TimeCurve;
using schedule::Timeline;

constexpr double hidden = 64, tokens = 64, top_k = 2, element = 8;      // element: bytes of an f64
constexpr double slot_bytes = tokens * top_k * hidden * element;        // bytes of a rank's rows
constexpr double product_flops = tokens * top_k * 2 * hidden * hidden;  // FLOPs of one product of these rows
constexpr double instant = 1e18;

struct Passes {
  Timeline forward, backward;
};

// Returns the passes of rank 0 of four ranks. Experts are as wide as a token, and all get the same number of rows.
Passes simulated(const Words& overrides, const Rates& rates) {
  Passes passes;
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    ScheduledLayer lab(world, joined({"model.hidden=64", "model.moe.expert_hidden=64", "model.moe.expert=gelu",
                                      "model.moe.routing=balanced"},
                                     overrides));
    schedule::GraphCollector collector;
    lab.layer.run_passes_by(&collector);
    lab.run(1, static_cast<int64_t>(tokens));
    ASSERT_GE(collector.graphs.size(), 2u);  // more graphs if Parm's S1 gathers gradients after the gate's backward
    for (size_t p = 0; p < 2; ++p) {
      const auto all = plan::graphs_of_all(collector.graphs[p], world, lab.context);
      if (world.rank() != 0) continue;
      std::vector<const schedule::TaskGraph*> graphs{&collector.graphs[p]};
      for (size_t r = 1; r < all.size(); ++r) graphs.push_back(&all[r]);
      (p == 0 ? passes.forward : passes.backward) =
          simulate(graphs, rates, plan::rank_groups(lab.mesh.layout(), lab.mesh.world().node_of_rank()))[0];
    }
  });
  return passes;
}

// Returns rates without latencies. Copies, and links that are not added, take almost no time.
Rates machine(double flops) {
  Rates rates;
  rates.compute.fill(TimeCurve::linear(0, flops));
  rates.copy = TimeCurve::linear(0, instant);
  rates.other_links = {TimeCurve::linear(0, instant), TimeCurve::linear(0, instant)};
  return rates;
}
void add_link(Rates& rates, TaskKind kind, std::string group, int size, double bytes_per_second) {
  rates.links.push_back({kind, std::move(group), size, false, TimeCurve::linear(0, bytes_per_second)});
}

double begin_of(const Timeline& t, const std::string& name) {
  for (const auto& span : t.spans)
    if (span.task.name == name) return span.begin;
  ADD_FAILURE() << "the timeline has no task " << name << "; expected this task";
  return 0;
}

void expect_near(double simulated, double printed, double share, const std::string& what) {
  EXPECT_NEAR(simulated / printed, 1, share) << what << ": simulated " << simulated << ", closed form " << printed;
}

// Paradigm 1 has no copies. All ranks are on one level, and three quarters of the rows leave their rank.
TEST(PaperForms, MpmoePhasesMatchTheSimulatedGraph) {
  using namespace plan;
  const mpmoe::Layer layer{.M = hidden, .H = hidden, .B = tokens, .E = 8, .k = top_k};
  for (const double speed : {0.3, 1.0, 3.0}) {  // speed of experts relative to the wire
    const double wire = 1e6, flops = speed * wire * 2 * product_flops / slot_bytes;
    Rates rates = machine(flops);
    add_link(rates, TaskKind::all_to_all, "ep", 4, 0.75 * wire);
    const mpmoe::Machine paper{.W_comm = wire, .W_comp = flops, .W_mem = instant, .bytes_per_element = element};
    for (const int n : {2, 4, 8}) {
      const Words cut{"parallel.ep=4", "schedule.moe.chunk_by=tokens", cat("schedule.moe.chunks=", n)};
      const std::string what = cat(n, " parts, experts ", speed);
      const Passes keep = simulated(cut, rates);
      const auto kept = mpmoe::predict(layer, paper, mpmoe::Reuse::none, n);
      expect_near(keep.forward.total(), kept.forward.seconds(), 0.01, "forward of " + what);
      // A result returns before the weight gradients of its chunk. The paper counts these gradients as part of the
      // experts' work.
      EXPECT_LE(keep.backward.total(), 1.01 * kept.backward.seconds()) << what;
      EXPECT_GE(keep.backward.total(), kept.backward.seconds() - 1 / flops * product_flops / n * 2) << what;
      const Passes s4 = simulated(joined(cut, {"schedule.moe.memory_reuse=s4"}), rates);
      const auto restored = mpmoe::predict(layer, paper, mpmoe::Reuse::s4, n);
      expect_near(s4.forward.total(), restored.forward.seconds(), 0.01, "S4, forward of " + what);
      expect_near(s4.backward.total(), restored.backward.seconds(), 0.25, "S4, backward of " + what);
    }
  }
}

// Four ranks with tp = etp = ep = 2 exchange in one group.
TEST(PaperForms, ParmsAlgorithm1AgreesWithTheSimulator) {
  using namespace plan;
  const parm::Layer layer{.B = 1, .L = tokens, .M = hidden, .E = 8, .k = top_k, .N_MP = 2, .N_EP = 2, .N_ESP = 2};
  constexpr double phases = 4;  // N_EP * N_ESP
  int of_s1 = 0;
  for (const double gather : {0.2, 0.5, 1.0, 2.0, 8.0}) {  // speed of the MP group relative to the other groups
    const double wire = 1e6;
    Rates rates = machine(instant);
    add_link(rates, TaskKind::all_to_all, "experts", 4, wire);
    add_link(rates, TaskKind::all_gather, "tp", 2, gather * wire);
    parm::Costs costs{.AG_MP = {.beta = element / 2 / (gather * wire)}, .A2A = {.beta = 0.75 * element / wire}};
    const double x = layer.ETM() * layer.N_ESP / layer.N_MP;
    costs.overlap = plan::AlphaBeta{.beta = parm::saa_seconds(costs.A2A(x), costs.AG_MP(layer.ETM()), phases) / x};
    const Words both{"parallel.tp=2", "parallel.ep=2", "schedule.moe.esp_exchange=direct"};
    const double s1 = simulated(both, rates).forward.total();
    const double s2 = simulated(joined(both, {"schedule.moe.duplicates=pause_after_gate",
                                              "schedule.moe.overlap=a2a_allgather", "schedule.moe.chunks=4"}),
                                rates)
                          .forward.total();
    const std::string what = cat("gathering at ", gather);
    expect_near(s1, parm::s1_seconds(layer, costs), 0.05, "S1, " + what);
    expect_near(s2, parm::s2_seconds(layer, costs), 0.1, "S2, " + what);
    if (std::abs(s1 / s2 - 1) > 0.1) {
      EXPECT_EQ(parm::choose(layer, costs) == parm::Schedule::s1, s1 < s2) << what;
    }
    of_s1 += s1 < s2 ? 1 : 0;
  }
  EXPECT_GT(of_s1, 0);
  EXPECT_LT(of_s1, 5);
}

// The rows reach the experts in three steps: an all-to-all between ranks with the same etp rank, an all-gather among
// the etp ranks, and copies to the final positions.
TEST(PaperForms, MontasAlgorithm3AgreesWithTheSimulator) {
  using namespace plan;
  int of_o3 = 0, of_o2 = 0;
  for (const double gather : {0.5, 4.0})
    for (const double copies : {0.5, 2.0, 1000.0}) {
      const double wire = 1e6;
      Rates rates = machine(instant);
      rates.copy = TimeCurve::linear(0, copies * wire);
      add_link(rates, TaskKind::all_to_all, "ep", 2, wire);
      add_link(rates, TaskKind::all_gather, "etp", 2, gather * wire);
      const monta::Network network{.t = 2,
                                   .e = 2,
                                   .all_to_all = {.bandwidth = wire},
                                   .all_gather = {.bandwidth = gather * wire},
                                   .copy = {.bandwidth = copies * wire}};
      const auto took = [&](const std::string& overlap, int n) {
        const Timeline t = simulated({"parallel.tp=2", "parallel.ep=2", "schedule.moe.duplicates=drop",
                                      "schedule.moe.overlap=" + overlap, cat("schedule.moe.chunks=", n)},
                                     rates)
                               .forward;
        return begin_of(t, n == 1 ? "experts[0]" : "experts") - begin_of(t, "dispatch.a2a[0]");
      };
      const std::string what = cat("gathering at ", gather, ", copies at ", copies);
      // This program's O1 copies the rows to their positions, while MoNTA's O1 has no copy.
      const monta::Chunk one = monta::chunk(slot_bytes, network, 1);
      const double o1 = took("sequential", 1);
      expect_near(o1, monta::seconds(monta::Strategy::o1, one, 1) + one.copy.seconds, 0.05, "O1, " + what);
      double best_o2 = o1, best_o3 = o1;
      for (const int n : {2, 4}) {
        const monta::Chunk part = monta::chunk(slot_bytes, network, n);
        const double o2 = took("a2a_allgather", n), o3 = took("a2a_allgather_copy", n);
        expect_near(o2, monta::seconds(monta::Strategy::o2, part, n), 0.1, cat("O2, ", n, " parts, ", what));
        expect_near(o3, monta::seconds(monta::Strategy::o3, part, n), 0.1, cat("O3, ", n, " parts, ", what));
        best_o2 = std::min(best_o2, o2), best_o3 = std::min(best_o3, o3);
      }
      const auto printed = [&](monta::Strategy s) {
        return monta::best_pipelined(monta::all_pipelined(s, slot_bytes, network, 4));
      };
      const double sequential = monta::seconds(monta::Strategy::o1, one, 1) + one.copy.seconds;
      const monta::Choice choice =
          monta::choose(sequential, printed(monta::Strategy::o2), printed(monta::Strategy::o3));
      const double chosen = choice.strategy == monta::Strategy::o1   ? o1
                            : choice.strategy == monta::Strategy::o2 ? best_o2
                                                                     : best_o3;
      EXPECT_LE(chosen, 1.02 * std::min({o1, best_o2, best_o3})) << monta::name_of(choice.strategy) << ", " << what;
      (choice.strategy == monta::Strategy::o3 ? of_o3 : of_o2) += 1;
    }
  EXPECT_GT(of_o3, 0);
  EXPECT_GT(of_o2, 0);
}

TEST(PaperForms, EpsGainMatchesTheSimulatedGraph) {
  using namespace plan;
  for (const double speed : {0.3, 1.0, 3.0}) {
    const double wire = 1e6, flops = speed * wire * product_flops / slot_bytes;
    Rates rates = machine(flops);
    add_link(rates, TaskKind::all_to_all, "ep", 2, wire);
    const double comm = 2 * slot_bytes / 2 / wire, comp = 2 * product_flops / flops;
    const auto took = [&](int n) {
      return simulated({"parallel.ep=2", cat("schedule.moe.chunk_by=", n == 1 ? "none" : "experts"),
                        cat("schedule.moe.chunks=", n)},
                       rates)
          .forward.total();
    };
    const double whole = took(1);
    double best = whole;
    int64_t best_chunks = 1;
    for (const auto& groups : eps::all_groups(comm, comp, 4, {})) {
      if (groups.N == 1) continue;
      const double seconds = took(static_cast<int>(groups.N));
      const std::string what = cat("gain of ", groups.N, " groups, experts at ", speed);
      // The paper's formula leaves the computation of one group exposed if communication takes longer than computation.
      // The simulated graph can also hide this computation. The first group then computes while the second group is
      // sent, and the last group computes while results return.
      if (comp >= comm)
        expect_near(whole - seconds, groups.gain, 0.05, what);
      else {
        EXPECT_GE(whole - seconds, groups.gain) << what;
        EXPECT_LE(whole - seconds, 1.001 * comp) << what;
      }
      if (seconds < best) best = seconds, best_chunks = groups.N;
    }
    EXPECT_EQ(eps::best_groups(eps::all_groups(comm, comp, 4, {})).N, best_chunks);
  }
}

}  // namespace
}  // namespace hexad::tests
