// Tasks of a pass under Parm's schedules S1 and S2.
#include <gtest/gtest.h>

#include "framework/schedule/graph_runner.h"
#include "tests/moe/paper_letters.h"
#include "tests/moe/scheduled_layer.h"

namespace hexad::tests {

using namespace base;
namespace {

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
  const std::string sum = " T(X0,X1)";
  EXPECT_EQ(saa(2), (Words{two + copies + " | compute: " + tasks + sum,
                           two + " Y(L0,L1)" + copies + sum + " | compute: " + tasks + " W0(C0)"}));
  const std::string four = "inter: S0(P0) R0(U0) R1(U0) R2(U0) R3(U0) | intra: X0(L0) X1(L1)",
                    of_four = " | copy: L0(R0,R1) L1(R2,R3)";
  EXPECT_EQ(saa(4), (Words{four + of_four + " | compute: " + tasks + sum,
                           four + " Y(L0,L1)" + of_four + sum + " | compute: " + tasks + " W0(C0)"}));
}

}  // namespace
}  // namespace hexad::tests
