// Task graph of a pass of rows to the experts and back.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "framework/base/error.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/schedule/executor.h"
#include "parallel/comm/thread_group.h"
#include "tests/ep/plan_for_ids.h"
#include "tests/moe/moe_lab.h"
#include "tests/moe/plain_pass.h"

namespace hexad::tests {
namespace {

using moe::Buffers;
using moe::Overlap;

// Pass that sends rows of slots in the order of the routing plan. Its experts return the rows that they receive.
struct EchoPass : PlainPass {
  std::function<void()> computing = [] {};  // called whenever experts compute results or weight gradients

  EchoPass(moe::Routes r, const Tensor& of_slots) : PlainPass(std::move(r), of_slots) {
    rows = [this](Stream&, size_t c) { return routes.sent_slots(c, like); };
    compute = [this](Stream&, size_t, moe::Rows grouped) {
      computing();
      return grouped;
    };
  }
  EchoPass(const EchoPass&) = delete;
  void add_weight_gradients() {
    weight_gradients = [this](size_t) { computing(); };
  }
  const Tensor& returned() const { return slot_rows().values; }
};

// Two tokens with two slots each on one ep rank.
struct EchoOnOneRank {
  MoeLab lab;
  comm::SelfGroup self;
  EchoPass pass;

  explicit EchoOnOneRank(const ep::RoutingOptions& options, Overlap overlap = Overlap::sequential)
      : EchoOnOneRank(nullptr, options, overlap) {}
  EchoOnOneRank(const comm::ProcessGroup* etp, const ep::RoutingOptions& options, Overlap overlap = Overlap::sequential)
      : pass(routes(etp, options, overlap), lab.integers({4, 8}, 1, 9)) {}

 private:
  moe::Routes routes(const comm::ProcessGroup* etp, const ep::RoutingOptions& options, Overlap overlap) {
    const ep::ExpertGroups groups{&self, etp ? etp : &self, etp ? etp : &self};
    return {
        .settings = pass_settings(groups, 4, overlap),
        .plan = plan_for_ids(lab.values(std::vector<int32_t>{0, 1, 3, 2}, {2, 2}), 4, groups, options, lab.stream()),
        .end = 2};
  }
};

TEST(MoePass, SendsComputesAndReturnsRows) {
  EchoOnOneRank t({});
  EXPECT_EQ(t.pass.letters(), "inter: S0(P0) R0(C0) | compute: P0 C0(S0)");
}

TEST(MoePass, SendsOneChunkAheadAndAlternatesSendsWithReturns) {
  EchoOnOneRank t({.chunking = {ep::Chunking::By::tokens, 2}});
  EXPECT_EQ(t.pass.letters(), "inter: S0(P0) S1(P1) R0(C0) R1(C1) | compute: P0 P1 C0(S0) C1(S1)");
}

TEST(MoePass, CopiesRowsOfJointChunksToTheirPositionsOnTheLaneOfTheOverlap) {
  EchoOnOneRank o2({.chunking = {ep::Chunking::By::tokens, 2}, .merged = true}, Overlap::a2a_allgather);
  EXPECT_EQ(o2.pass.letters(),
            "inter: S0(P0) S1(P1) R0(U0) R1(U1) | intra: D0(S0) D1(S1) | compute: P0 P1 C(D0,D1) U0(C) U1(C)");
  EchoOnOneRank o3({.chunking = {ep::Chunking::By::tokens, 2}, .merged = true}, Overlap::a2a_allgather_copy);
  EXPECT_EQ(o3.pass.letters(),
            "inter: S0(P0) S1(P1) R0(U0) R1(U1) | copy: D0(S0) D1(S1) U0(C) U1(C) | compute: P0 P1 C(D0,D1)");
}

TEST(MoePass, TasksInSequenceWaitForTheTaskBefore) {
  EchoOnOneRank t({.chunking = {ep::Chunking::By::tokens, 2}}, Overlap::none);
  t.pass.add_weight_gradients();
  EXPECT_EQ(t.pass.letters(),
            "inter: S0(P0) S1(P1) R0(C0) R1(C1) | compute: P0 P1(S0) C0(S0,S1) W0(C0,R0) C1(S1,W0) W1(C1,R1)");
}

template <class H>
concept Writable = requires(H h) {
  h.put({}), h.take();
};
static_assert(Writable<moe::Handoff<Tensor>&>);
static_assert(!Writable<const moe::Handoff<Tensor>&>, "a const handoff can only be read");

TEST(Handoff, TakeEmptiesAllCopies) {
  moe::Handoff<std::string> handoff, copy = handoff;
  handoff.put("rows");
  EXPECT_EQ(copy.read(), "rows");
  EXPECT_EQ(copy.take(), "rows");
  EXPECT_EQ(handoff.read(), "");
}

TEST(MoePass, TokensAreNotGatheredWithoutGatherers) {
  EchoOnOneRank t({});
  moe::PassGraph g(t.pass.routes, t.pass.like, Buffers::own);
  const Tensor own = t.pass.like.slice(0, 1, 3);
  EXPECT_EQ(moe::add_token_gather(g, own).read().dim(0), 2);
  EXPECT_TRUE(g.graph().tasks().empty());
}

TEST(MoePass, WeightGradientsFollowTheReturnOfTheirChunk) {
  EchoOnOneRank t({.chunking = {ep::Chunking::By::tokens, 2}});
  t.pass.add_weight_gradients();
  EXPECT_EQ(t.pass.letters(), "inter: S0(P0) S1(P1) R0(C0) R1(C1) | compute: P0 P1 C0(S0) W0(C0) C1(S1) W1(C1)");
}

// Returns the number of threads that experts may use in each computing task, with a compute_share of 0.5 and `threads`
// threads.
std::vector<int> threads_of_experts(const ep::RoutingOptions& options, int threads, bool shared = false) {
  EchoOnOneRank t(options);
  std::vector<int> seen;
  t.pass.routes.settings.schedule.compute_share = 0.5;
  t.pass.add_weight_gradients();
  t.pass.computing = [&] { seen.push_back(kernels::cpu::thread_count()); };
  if (shared) t.pass.shared = {.compute = t.pass.computing, .cost = {.products = {1, 0, 0}}};
  const int before = kernels::cpu::thread_count();
  kernels::cpu::set_thread_count(threads);
  schedule::execute(t.pass.graph(), t.lab.context);
  EXPECT_EQ(kernels::cpu::thread_count(), threads) << "the number of threads is restored after the pass";
  kernels::cpu::set_thread_count(before);
  return seen;
}

TEST(MoePass, ExpertsUseAShareOfTheThreadsWhileOtherChunksAreInFlight) {
  EXPECT_EQ(threads_of_experts({.chunking = {ep::Chunking::By::tokens, 2}}, 4), (std::vector{2, 2, 2, 2}));
  EXPECT_EQ(threads_of_experts({.chunking = {ep::Chunking::By::tokens, 2}}, 1), (std::vector{1, 1, 1, 1}));
  EXPECT_EQ(threads_of_experts({}, 4), (std::vector{4, 4}))
      << "with one chunk, no communication is in flight while experts compute";
  EXPECT_EQ(threads_of_experts({}, 4, true), (std::vector{2, 4, 4}))
      << "rows are in flight while shared experts compute";
}

TEST(MoePass, CostsHaveTheShareOfTheThreads) {
  for (const bool chunked : {true, false}) {
    EchoOnOneRank t(chunked ? ep::RoutingOptions{.chunking = {ep::Chunking::By::tokens, 2}} : ep::RoutingOptions{});
    t.pass.routes.settings.schedule.compute_share = 0.5;
    t.pass.add_weight_gradients();
    t.pass.shared = {.compute = [] {}, .cost = {.products = {1, 0, 0}}};
    int capped = 0;
    for (const schedule::Task& task : t.pass.graph().tasks()) capped += task.spec.cost.share == 0.5 ? 1 : 0;
    EXPECT_EQ(capped, chunked ? 5 : 1)
        << "shared experts and, with two chunks, the experts and weight gradients of each chunk";
  }
}

TEST(MoePass, SharedExpertsFollowTheFirstSendsAndHaveNoDependencies) {
  const auto graph = [](const ep::RoutingOptions& options, Overlap overlap = Overlap::sequential,
                        Buffers buffers = Buffers::own) {
    EchoOnOneRank t(options, overlap);
    t.pass.shared = {.compute = [] {}, .cost = {.flops = 5, .products = {0, 3, 1}}};
    t.pass.buffers = buffers;
    const schedule::TaskGraph& g = t.pass.graph();
    for (const schedule::Task& task : g.tasks()) {
      if (task.spec.name != "shared_experts") continue;
      EXPECT_EQ(task.spec.cost.flops, 20);
      EXPECT_EQ(task.spec.cost.products, (schedule::ByGemmPass<int64_t>{0, 3, 1}));
      EXPECT_GT(&task, &*std::find_if(g.tasks().begin(), g.tasks().end(), [](const schedule::Task& other) {
        return other.spec.name == "dispatch.a2a[0]";
      }));
    }
    return in_letters(g.to_string());
  };
  const ep::Chunking two{ep::Chunking::By::tokens, 2};
  EXPECT_EQ(graph({}), "inter: S0(P0) R0(C0) | compute: P0 H C0(S0)");
  EXPECT_EQ(graph({.chunking = two}), "inter: S0(P0) S1(P1) R0(C0) R1(C1) | compute: P0 P1 H C0(S0) C1(S1)");
  EXPECT_EQ(graph({.chunking = two, .merged = true}, Overlap::a2a_allgather),
            "inter: S0(P0) S1(P1) R0(U0) R1(U1) | intra: D0(S0) D1(S1) | compute: P0 P1 H C(D0,D1) U0(C) U1(C)");
  EXPECT_TRUE(graph({.chunking = two}, Overlap::sequential, Buffers::bounded).ends_with("compute: H C0(S0) C1(S1,C0)"));
}

TEST(MoePass, FollowsTheIssueOrder) {
  const std::pair<std::string, std::string> graphs[] = {{"alternating",
                                                         "inter: S0(P0) S1(P1) R0(C0) S2(P2) R1(C1) R2(C2) | compute: "
                                                         "P0 P1 C0(S0) W0(C0) P2 C1(S1) W1(C1) C2(S2) W2(C2)"},
                                                        {"weights_last",
                                                         "inter: S0(P0) S1(P1) R0(C0) S2(P2) R1(C1) R2(C2) | compute: "
                                                         "P0 P1 C0(S0) P2 C1(S1) C2(S2) W0(C0) W1(C1) W2(C2)"},
                                                        {"returns_last",
                                                         "inter: S0(P0) S1(P1) S2(P2) R0(C0) R1(C1) R2(C2) | compute: "
                                                         "P0 P1 P2 C0(S0) W0(C0) C1(S1) W1(C1) C2(S2) W2(C2)"}};
  const std::vector<moe::IssueOrder> orders = moe::built_in_orders();
  ASSERT_EQ(orders.size(), std::size(graphs));
  for (size_t i = 0; i < orders.size(); ++i) {
    EchoOnOneRank t({.chunking = {ep::Chunking::By::tokens, 3}});
    t.pass.add_weight_gradients();
    t.pass.routes.settings.order = orders[i];
    EXPECT_EQ(orders[i].name, graphs[i].first);
    EXPECT_EQ(t.pass.letters(), graphs[i].second);
  }
}

TEST(MoePass, RefusesThreeChunksInFlightWithTwoBuffers) {
  for (const moe::IssueOrder& order : moe::built_in_orders()) {
    EchoOnOneRank t({.chunking = {ep::Chunking::By::tokens, 3}});
    t.pass.buffers = Buffers::bounded;
    t.pass.routes.settings.order = order;
    if (order.name == "returns_last")
      EXPECT_THROW(t.pass.graph(), base::Error);
    else
      EXPECT_TRUE(t.pass.letters().starts_with("inter: S0(P0) S1(P1) R0(C0) S2(P2) R1(C1)"));
  }
}

// Each of two etp ranks computes a partial sum of each result. These experts return their input rows, so the sums are
// twice the rows.
TEST(MoePass, SumsTheResultsOfRanksWithSharedExperts) {
  using ep::EspExchange;
  const std::pair<EspExchange, std::string> graphs[] = {
      {EspExchange::gather, "inter: S0(P0) R0(A0) | intra: G0(S0) A0(U0) | compute: P0 D0(G0) C0(D0) U0(C0)"},
      {EspExchange::direct, "inter: S0(P0) R0(U0) | copy: L0(R0) | compute: P0 D0(S0) C0(D0) U0(C0)"},
      {EspExchange::replicated, "inter: S0(P0) R0(A0) | intra: A0(C0) | compute: P0 C0(S0)"}};
  for (const auto& [esp_exchange, text] : graphs)
    comm::with_ranks(2, [&](const comm::ProcessGroup& etp) {
      EchoOnOneRank t(&etp, {.esp_exchange = esp_exchange});
      const auto& graph = t.pass.graph();
      EXPECT_EQ(in_letters(graph.to_string()), text);
      const Tensor twice = copy_of(t.pass.like);
      schedule::execute(graph, t.lab.context);
      change<double>(twice, [](std::span<double> values) {
        for (double& v : values) v *= 2;
      });
      expect_bitwise(twice, t.pass.returned());
    });
}

TEST(MoePass, GathersReturnedRowsOfAllRanksByChunk) {
  comm::with_ranks(2, [](const comm::ProcessGroup& tp) {
    EchoOnOneRank t({.chunking = {ep::Chunking::By::tokens, 2}});
    t.pass.routes.collection = moe::RowCollection{.group = &tp, .counts = {{2, 2}, {2, 2}}, .rows = {}};
    const auto& graph = t.pass.graph();
    EXPECT_EQ(in_letters(graph.to_string()),
              "inter: S0(P0) S1(P1) R0(C0) R1(C1) | intra: X0(R0) X1(R1) | compute: P0 P1 C0(S0) C1(S1)");
    schedule::execute(graph, t.lab.context);
    for (int64_t c : {0, 1})
      for (int64_t q : {0, 1})
        expect_bitwise(t.pass.like.slice(0, 2 * c, 2 * c + 2),
                       t.pass.collected().slice(0, 4 * c + 2 * q, 4 * c + 2 * q + 2));
  });
}

// Pass of four ranks on two nodes. Each rank sends one row to each of the ranks 0, 1 and 2, and three rows to rank 3.
// The experts return the rows that they receive.
struct EchoInTwoSteps {
  MoeLab lab;
  comm::SelfGroup self;
  std::unique_ptr<comm::NodeGroups> nodes;
  EchoPass pass;

  EchoInTwoSteps(const comm::ProcessGroup& world, const ep::Chunking& chunking)
      : nodes(comm::split_by_node(world)), pass(routes(world, chunking), lab.integers({6, 8}, 1, 9)) {}

 private:
  moe::Routes routes(const comm::ProcessGroup& world, const ep::Chunking& chunking) {
    const ep::ExpertGroups groups{&world, &self, &world, nodes.get(), nodes.get()};
    return {.settings = pass_settings(groups, 4),
            .plan = plan_for_ids(lab.values(std::vector<int32_t>{0, 3, 1, 3, 2, 3}, {6, 1}), 4, groups,
                                 {.chunking = chunking, .all_to_all = ep::AllToAll::hierarchical}, lab.stream()),
            .end = 6};
  }
};

const comm::ThreadOptions two_nodes{.node_of_rank = {0, 0, 1, 1}};

TEST(MoePass, SendsInTwoStepsInsideNodesFirstAndReturnsBetweenNodesFirst) {
  comm::with_ranks(
      4,
      [&](const comm::ProcessGroup& world) {
        EchoInTwoSteps t(world, {ep::Chunking::By::tokens, 2});
        const auto& graph = t.pass.graph();
        EXPECT_EQ(in_letters(graph.to_string()),
                  "inter: S0(N0) S1(N1) R0(C0) R1(C1) | intra: N0(P0) N1(P1) K0(R0) K1(R1) | copy: L0(K0) L1(K1) | "
                  "compute: P0 P1 C0(S0) C1(S1)");
        schedule::execute(graph, t.lab.context);
        expect_bitwise(t.pass.like, t.pass.returned());
      },
      two_nodes);
}

TEST(MoePass, CountsTheBytesOfBothStepsOfAnAllToAll) {
  struct Bytes {
    int64_t sent, received, copied;
  };
  // Rows have 64 bytes. Ranks 1 and 3, the second ranks of their nodes, forward the rows that their node sends to ranks
  // 1 and 3.
  const Bytes inside[] = {{4, 2, 4}, {2, 4, 8}, {4, 2, 4}, {2, 4, 8}};
  const Bytes across[] = {{2, 2, 0}, {6, 2, 0}, {2, 2, 0}, {2, 6, 0}};
  comm::with_ranks(
      4,
      [&](const comm::ProcessGroup& world) {
        EchoInTwoSteps t(world, {});
        const auto& graph = t.pass.graph();
        const size_t r = world.rank();
        const auto cost = [](std::string group, bool crosses, int64_t sent, int64_t received, int64_t copied) {
          return schedule::Cost{.wire_bytes = 64 * sent,
                                .received_bytes = 64 * received,
                                .copy_bytes = 64 * copied,
                                .group = std::move(group),
                                .group_size = 2,
                                .crosses_nodes = crosses};
        };
        std::map<std::string, schedule::TaskSpec> tasks;
        for (const schedule::Task& task : graph.tasks()) tasks[task.spec.name] = task.spec;
        EXPECT_EQ(tasks.at("dispatch.a2a_inside[0]").cost,
                  cost("ep_inside", false, inside[r].sent, inside[r].received, 0));
        EXPECT_EQ(tasks.at("dispatch.a2a[0]").cost,
                  cost("ep_across", true, across[r].sent, across[r].received, inside[r].copied));
        EXPECT_EQ(tasks.at("combine.a2a[0]").cost, cost("ep_across", true, across[r].received, across[r].sent, 0));
        EXPECT_EQ(tasks.at("combine.a2a_inside[0]").cost,
                  cost("ep_inside", false, inside[r].received, inside[r].sent, inside[r].copied));
        for (const char* name :
             {"dispatch.a2a_inside[0]", "dispatch.a2a[0]", "combine.a2a[0]", "combine.a2a_inside[0]"})
          EXPECT_EQ(tasks.at(name).kind, schedule::TaskKind::all_to_all) << name;
        schedule::execute(graph, t.lab.context);
        expect_bitwise(t.pass.like, t.pass.returned());
      },
      two_nodes);
}

// Some legal orders would read data before the data exist if an edge were missing.
TEST(MoePass, EightShuffledExecutionOrdersGiveTheSameResult) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    comm::with_ranks(
        4,
        [&](const comm::ProcessGroup& world) {
          EchoInTwoSteps t(world, {ep::Chunking::By::tokens, 3});
          schedule::execute_shuffled(t.pass.graph(), t.lab.context, seed);
          expect_bitwise(t.pass.like, t.pass.returned());
        },
        two_nodes);
    for (const moe::IssueOrder& order : moe::built_in_orders()) {
      EchoOnOneRank t({.chunking = {ep::Chunking::By::tokens, 4}});
      t.pass.routes.settings.order = order;
      schedule::execute_shuffled(t.pass.graph(), t.lab.context, seed);
      expect_bitwise(t.pass.like, t.pass.returned());
    }
    for (bool merged : {false, true}) {
      EchoOnOneRank t({.chunking = {ep::Chunking::By::tokens, 2}, .merged = merged},
                      merged ? Overlap::a2a_allgather_copy : Overlap::sequential);
      schedule::execute_shuffled(t.pass.graph(), t.lab.context, seed);
      expect_bitwise(t.pass.like, t.pass.returned());
    }
  }
}

}  // namespace
}  // namespace hexad::tests
