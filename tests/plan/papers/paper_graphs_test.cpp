// Compares closed forms of Parm and MPMoE with the simulator on the same task graphs: those of an MoE layer on the meta
// device. As in the papers, a link, a matrix product or a copy takes alpha + beta x seconds. Experts get equal loads.
// Where a closed form and the graph differ, the test states the difference and its reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/schedule/simulator.h"
#include "tests/training/training.h"
#include "tools/plan/layer_graphs.h"
#include "tools/plan/papers/mpmoe.h"
#include "tools/plan/papers/parm.h"

namespace hexad::tests {
namespace {

using namespace plan;

using base::cat;
using schedule::Rates;
using schedule::TaskGraph;
using schedule::TaskKind;
using schedule::TimeCurve;

using Overrides = std::vector<std::string>;

constexpr double element = 8;  // bytes of an f64
constexpr double instant = 1e18;

// Tolerance of forms that describe the whole graph. Rows of S1 to S4 carry a routing weight in backward, and an
// `instant` link or kernel takes nearly no time. The forms count neither.
constexpr double nearly = 0.01;

Overrides joined(Overrides all, const Overrides& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Returns the keys of an MoE layer with `tokens` tokens on each of `dp` dp ranks, in one micro-batch. `tokens` must be
// a multiple of 256. Experts have two matrix products.
Overrides layer_of(int64_t hidden, int64_t expert_hidden, int64_t experts, int64_t top_k, int64_t tokens, int dp) {
  return {cat("model.hidden=", hidden),
          cat("model.moe.expert_hidden=", expert_hidden),
          cat("model.moe.top_k=", top_k),
          cat("model.moe.experts=", experts),
          "model.moe.expert=gelu",
          "model.moe.normalize=false",
          "model.kv_heads=4",
          "model.context=256",
          cat("batch.micro=", tokens / 256),
          cat("batch.global=", tokens / 256 * dp)};
}

// Returns the graphs of a layer's passes on rank 0 of `ranks` ranks of one node: forward, then backward.
std::vector<TaskGraph> passes_of(const Overrides& overrides, int ranks) {
  const Recipe recipe = small_recipe(overrides, ranks);
  return LayerOnMeta(recipe, {}, mesh::Layout(recipe.parallel.sizes(), ranks), 0, std::vector<int>(ranks, 0))
      .work(recipe.schedule.moe.settled())
      .graphs;
}

// Seconds of a link, of matrix products or of copies: `alpha`, and one second for each `per_second` bytes or FLOPs.
struct Line {
  double alpha = 0, per_second = instant;

  double operator()(double size) const { return alpha + size / per_second; }
  TimeCurve curve() const { return TimeCurve::linear(alpha, per_second); }
};

// Returns the rates of a machine whose links take nearly no time. Callers may add slower links.
Rates machine(const Line& products, const Line& copies) {
  Rates rates;
  rates.compute.fill(products.curve());
  rates.copy = copies.curve();
  rates.other_links = {Line().curve(), Line().curve()};
  return rates;
}

void expect_within(double least, double simulated, double most, const std::string& what) {
  EXPECT_GE(simulated, least * (1 - nearly)) << what;
  EXPECT_LE(simulated, most * (1 + nearly)) << what;
}

// A closed form beside the simulated seconds of its graph.
struct Compared {
  std::string name;
  double form, simulated;
};

// Expects that the simulator orders two schedules like their closed forms, if the forms differ by more than
// `tolerance`.
void expect_same_order(const std::vector<Compared>& all, double tolerance, const std::string& what) {
  for (const Compared& a : all)
    for (const Compared& b : all)
      if (a.form > (1 + tolerance) * b.form) {
        EXPECT_GT(a.simulated, b.simulated)
            << what << ": " << a.name << " and " << b.name << " by closed forms " << a.form << " and " << b.form;
      }
}

// Links of Parm's collectives, for two ep ranks and tensor-parallel groups of `width` ranks. The ranks of a
// tensor-parallel group share the width of their experts. N_MP and N_ESP are `width`.
struct ParmLinks {
  int width;
  Line direct;               // EP&ESP-AlltoAll
  Line gather;               // MP-AllGather
  Line esp_gather, esp_sum;  // ESP-AllGather, ESP-AllReduce
  Line ep_exchange;          // EP-AlltoAll

  Rates rates() const {
    Rates rates = machine({}, {});
    const auto add = [&](TaskKind kind, std::string group, int size, const Line& line) {
      rates.links.push_back({kind, std::move(group), size, false, line.curve()});
    };
    add(TaskKind::all_to_all, "experts", 2 * width, direct);
    add(TaskKind::all_gather, "tp", width, gather);
    add(TaskKind::all_gather, "etp", width, esp_gather);
    add(TaskKind::all_reduce, "etp", width, esp_sum);
    add(TaskKind::all_to_all, "ep", 2, ep_exchange);
    return rates;
  }

  // One of n ranks sends (n - 1)/n of the elements of a collective, and twice as many in an all-reduce.
  parm::Costs costs() const { return {.AG_MP = cost(gather, width), .A2A = cost(direct, 2 * width)}; }
  parm::BaselineCosts baseline_costs() const {
    return {.AG_ESP = cost(esp_gather, width), .AR_ESP = cost(esp_sum, width, 2), .A2A_EP = cost(ep_exchange, 2)};
  }

 private:
  static AlphaBeta cost(const Line& line, int ranks, double times = 1) {
    return {line.alpha, times * element * (ranks - 1) / ranks / line.per_second};
  }
};

// Returns the seconds of a collective of x elements in `parts` equal parts. Each part has its own startup time.
double in_parts(const AlphaBeta& line, double x, double parts) { return line(x) + (parts - 1) * line.alpha; }

TEST(PaperGraphs, SchedulesOfParmTakeTheTimesOfItsEquations) {
  constexpr int64_t hidden = 64;
  constexpr double ep = 2, tolerance = 0.16;  // tolerance: the largest extra time of S2 by gathering in sets, see below
  int baseline_wins = 0, s1_wins = 0, s2_wins = 0;
  for (const int width : {2, 4})
    for (const int64_t tokens : {256, 2048, 8192})
      for (const int64_t top_k : {1, 2}) {
        const int ranks = 2 * width;
        const Overrides layer =
            joined(layer_of(hidden, hidden, 8, top_k, tokens, 2), {cat("parallel.tp=", width), "parallel.ep=2"});
        const auto forward = [&](const Overrides& schedule) {
          return passes_of(joined(layer, schedule), ranks).front();
        };
        const std::string direct = "schedule.moe.esp_exchange=direct",
                          after_gate = "schedule.moe.duplicates=pause_after_gate";
        const TaskGraph baseline = forward({"schedule.moe.duplicates=baseline"}),
                        s1 = forward({"schedule.moe.duplicates=pause_before_gate", direct}),
                        sequential = forward({after_gate, direct}),
                        s2 = forward({after_gate, direct, "schedule.moe.overlap=a2a_allgather",
                                      cat("schedule.moe.chunks=", ranks)});
        const double N = width;
        const parm::Layer l{.B = 1,
                            .L = static_cast<double>(tokens),
                            .M = hidden,
                            .E = 8,
                            .k = static_cast<double>(top_k),
                            .N_MP = N,
                            .N_EP = ep,
                            .N_ESP = N};
        for (const double direct_speed : {0.1, 1.0})
          for (const double gather_speed : {0.25, 1.0, 4.0}) {
            const ParmLinks links{.width = width,
                                  .direct = {2e-5, direct_speed * 1e9},
                                  .gather = {1e-5, gather_speed * 1e9},
                                  .esp_gather = {1e-5, 1e9},
                                  .esp_sum = {3e-5, 1e9},
                                  .ep_exchange = {1.5e-5, 1e9}};
            const Rates rates = links.rates();
            const parm::Costs costs = links.costs();
            const std::string what = cat(tokens, " tokens, k ", top_k, ", N_MP ", width, ", EP&ESP-AlltoAll at ",
                                         direct_speed, ", MP-AllGather at ", gather_speed);
            const auto took = [&](const TaskGraph& graph) { return simulate(graph, rates).total(); };

            const Compared t_B{"baseline", parm::baseline(l, links.baseline_costs()).seconds(), took(baseline)};
            expect_within(t_B.form, t_B.simulated, t_B.form, "t_B, " + what);
            const Compared t_D1{"S1", parm::s1_seconds(l, costs), took(s1)};
            expect_within(t_D1.form, t_D1.simulated, t_D1.form, "t_D1, " + what);
            // This program gathers sums of tokens (BLM) if nothing overlaps, not results of slots (ETM).
            const double without = parm::s2_sequential_seconds(l, costs) - costs.AG_MP(l.ETM()) + costs.AG_MP(l.BLM());
            expect_within(without, took(sequential), without, "t_D2 without overlap, " + what);

            // Phases have their own startup times. The first of N_EP x N_ESP phases, a rank's rows for itself, sends
            // nothing. The form gathers each phase on its own. A row of this program has addends from N_ESP phases, so
            // this program gathers N_EP sets of N_ESP phases each. Therefore less of the shorter collective is hidden.
            const double exchange = in_parts(costs.A2A, l.ETM() * l.N_ESP / l.N_MP, ep * N - 1),
                         gather = in_parts(costs.AG_MP, l.ETM(), ep);
            parm::Costs overlapped = costs;
            overlapped.overlap = AlphaBeta{.alpha = parm::saa_seconds(exchange, gather, ep * N), .beta = 0};
            const Compared t_D2{"S2", parm::s2_seconds(l, overlapped), took(s2)};
            expect_within(t_D2.form, t_D2.simulated, t_D2.form + std::min(exchange, gather) * (1 / ep - 1 / (ep * N)),
                          "t_D2, " + what);

            expect_same_order({t_B, t_D1, t_D2}, tolerance, what);
            if (std::abs(t_D1.form / t_D2.form - 1) > tolerance) {
              EXPECT_EQ(parm::choose(l, overlapped) == parm::Schedule::s1, t_D1.simulated < t_D2.simulated) << what;
            }
            const double best = std::min({t_B.simulated, t_D1.simulated, t_D2.simulated});
            ++(best == t_B.simulated ? baseline_wins : best == t_D1.simulated ? s1_wins : s2_wins);
          }
      }
  EXPECT_GT(baseline_wins, 0);
  EXPECT_GT(s1_wins, 0);
  EXPECT_GT(s2_wins, 0);
}

// Returns the graph with the copies between device and host, but without the bytes of all other copies. MPMoE's copy
// stream has only copies of the first kind.
TaskGraph with_host_copies_only(const TaskGraph& graph) {
  TaskGraph out;
  for (const schedule::Task& task : graph.tasks()) {
    schedule::TaskSpec spec = task.spec;
    const auto has = [&](std::string_view part) { return spec.name.find(part) != std::string::npos; };
    if (!has(".offload[") && !has(".fetch[")) spec.cost.copy_bytes = 0;
    out.add(std::move(spec), task.after, task.work);
  }
  return out;
}

// Machine of MPMoE's streams.
struct Streams {
  Line wire, products, host;

  Rates rates(int ep) const {
    Rates rates = machine(products, host);
    rates.links.push_back({TaskKind::all_to_all, "ep", ep, false, wire.curve()});
    return rates;
  }
};

// Times of one of n micro-batches in a pass.
struct MicroBatch {
  mpmoe::Operations operations;  // M: the copy of T_DI. C includes copies_of_activations
  double copies_of_activations = 0, weight_gradients = 0;
};

bool copies_input(mpmoe::Reuse r) { return r == mpmoe::Reuse::s1 || r == mpmoe::Reuse::s3; }
bool copies_activations(mpmoe::Reuse r) { return r == mpmoe::Reuse::s1 || r == mpmoe::Reuse::s2; }

// Returns the times of a micro-batch with `products` matrix products of the rank's only expert. `sends` is the number
// of all-to-alls to the experts, and `ep` the number of ranks with experts. All micro-batches of a rank share one
// buffer of T_M. T_M is copied before the next micro-batch is computed (forward), or after the previous one was
// computed (backward). In Figure 8, this copy runs beside C. Here, its time counts as part of C.
MicroBatch micro_batch(const mpmoe::Layer& l, const Streams& m, mpmoe::Reuse reuse, double n, double products,
                       double sends, double ep) {
  const double rows = l.k * l.B / n;
  const double exchange = m.wire(rows * l.M * element * (ep - 1) / ep);
  const double product = m.products(2 * rows * l.M * l.H);
  MicroBatch out;
  if (copies_activations(reuse)) out.copies_of_activations = m.host(rows * l.H * element);
  out.operations = {.S = sends * exchange,
                    .C = products * product + out.copies_of_activations,
                    .R = exchange,
                    .M = copies_input(reuse) ? m.host(rows * l.M * element) : 0};
  if (reuse == mpmoe::Reuse::none) out.weight_gradients = 2 * product;
  return out;
}

TEST(PaperGraphs, PassesOfMpmoeTakeTheTimesOfItsParadigms) {
  using namespace mpmoe;
  constexpr int ep = 4;
  constexpr double tolerance = 0.2;
  constexpr int64_t hidden = 256, expert_hidden = 4 * hidden;
  int offloading_wins = 0, recomputing_wins = 0;
  for (const int64_t tokens : {256, 4096}) {
    struct Graphs {
      Reuse reuse;
      int64_t n;
      TaskGraph forward, backward;
    };
    std::vector<Graphs> graphs;
    for (const int64_t n : {2, 4, 8})
      for (const auto& [reuse, key] : {std::pair{Reuse::none, "none"},
                                       {Reuse::s1, "s1"},
                                       {Reuse::s2, "s2"},
                                       {Reuse::s3, "s3"},
                                       {Reuse::s4, "s4"}}) {
        const auto passes = passes_of(joined(layer_of(hidden, expert_hidden, ep, 1, tokens, ep),
                                             {cat("parallel.ep=", ep), "schedule.moe.chunk_by=tokens",
                                              cat("schedule.moe.chunks=", n), cat("schedule.moe.memory_reuse=", key)}),
                                      ep);
        graphs.push_back({reuse, n, with_host_copies_only(passes.at(0)), with_host_copies_only(passes.at(1))});
      }
    const Layer l{.M = hidden, .H = expert_hidden, .B = static_cast<double>(tokens), .E = ep, .k = 1};
    for (const double speed : {0.5, 1.0, 2.0})     // speed of products relative to both all-to-alls
      for (const double host : {0.3, 1.0, 4.0}) {  // speed of the host link
        constexpr double wire = 1e9;
        const double exchanges = 2 * l.B * l.M * element * (ep - 1) / ep / wire;
        const Streams m{.wire = {2e-5, wire},
                        .products = {5e-6, 4 * l.B * l.M * l.H / exchanges * speed},
                        .host = {1e-5, host * 6 * wire}};
        const Rates rates = m.rates(ep);
        std::vector<Compared> all;
        for (const Graphs& g : graphs) {
          const double n = static_cast<double>(g.n);
          const std::string name = cat(name_of(g.reuse), " with ", g.n, " micro-batches"),
                            what = cat(name, " of ", tokens, " tokens, experts ", speed, ", host ", host);
          const ReuseCost cost = reuse_cost(l, g.reuse);
          const auto form = [&](Paradigm with_copies, const MicroBatch& of) {
            return phases(of.operations.M > 0 ? with_copies : Paradigm::no_copies, of.operations, g.n, {}).seconds();
          };
          // The copy of the first chunk's or of the last chunk's T_M may overlap with an all-to-all. Without memory
          // reuse, results return before the weight gradients of their chunk. The form counts these copies and weight
          // gradients as work that delays a return.
          const auto hidden_at_ends = [](const MicroBatch& of) {
            return 2 * (of.copies_of_activations + of.weight_gradients);
          };
          MicroBatch forward = micro_batch(l, m, g.reuse, n, 2, 1, ep);
          forward.weight_gradients = 0;
          const MicroBatch backward =
              micro_batch(l, m, g.reuse, n, cost.recomputed > 0 ? 5 : 4, cost.communicated > 0 ? 2 : 1, ep);
          const double forward_form = form(Paradigm::copies_after, forward),
                       backward_form = form(Paradigm::copies_before, backward);
          const double forward_took = simulate(g.forward, rates).total(),
                       backward_took = simulate(g.backward, rates).total();
          expect_within(forward_form - hidden_at_ends(forward), forward_took, forward_form, "forward of " + what);
          expect_within(backward_form - hidden_at_ends(backward), backward_took, backward_form, "backward of " + what);
          all.push_back({name, forward_form + backward_form, forward_took + backward_took});
        }
        expect_same_order(all, tolerance, cat(tokens, " tokens, experts ", speed, ", host ", host));
        const auto least = [&](bool offloading) {
          double seconds = instant;
          for (size_t i = 0; i < graphs.size(); ++i)
            if (graphs[i].reuse != Reuse::none && copies_activations(graphs[i].reuse) == offloading)
              seconds = std::min(seconds, all[i].simulated);
          return seconds;
        };
        ++(least(true) < least(false) ? offloading_wins : recomputing_wins);
      }
  }
  EXPECT_GT(offloading_wins, 0);
  EXPECT_GT(recomputing_wins, 0);
}

}  // namespace
}  // namespace hexad::tests
