// Rows that are written into windows of other ranks' memory give the same bits as messages.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "parallel/comm/thread_group.h"
#include "tests/moe/every_schedule.h"
#include "tests/moe/scheduled_layer.h"

namespace hexad::tests {

using namespace base;
namespace {

const std::string by_window = "schedule.moe.all_to_all=window";

// Returns the number of bytes of the layer's windows.
int64_t window_bytes(const ScheduledLayer& layer) { return layer.mesh.ep_windows().bytes(); }

TEST(Schedules, GiveTheSameBitsThroughWindows) {
  const comm::ThreadOptions late{.jitter = {.seed = 7, .max_delay = std::chrono::microseconds(200)}};
  const Words allowed{
      "Drop",        "S1",    "Baseline", "Replicated",  "Tokens3",     "Tokens64",         "TokensEspDirect",
      "TokensDrop",  "Nodes", "Experts",  "WeightsLast", "ReturnsLast", "TokensInSequence", "BaselineTokens",
      "DenseExperts"};
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
    ScheduledLayer plain(world, ep4), windows(world, joined(ep4, {by_window}));
    expect_same_bits(plain.run(1), windows.run(1));
    const int64_t first = window_bytes(windows);
    for (int step = 0; step < 2; ++step) {
      for (const auto& p : plain.parameters) p->clear_gradient();
      for (const auto& p : windows.parameters) p->clear_gradient();
      expect_same_bits(plain.run(40), windows.run(40));
      EXPECT_EQ(window_bytes(windows) > first, step == 1);
      windows.mesh.ep_windows().grow();
    }
  });
}

TEST(Schedules, WindowsAcrossNodesAreRefused) {
  try {
    comm::with_ranks(4,
                     [](const comm::ProcessGroup& world) {
                       ScheduledLayer(world, {"parallel.ep=4", by_window}).run();
                     },
                     {.node_of_rank = {0, 0, 1, 1}});
    ADD_FAILURE() << "windows across nodes were accepted; expected an error";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::usage);
    EXPECT_STREQ(e.what(),
                 "schedule.moe.all_to_all is window, which needs all ep ranks of a group on one node, but the group of "
                 "rank 0 (4 ranks) is on several nodes; legal here: direct, hierarchical");
  }
}

}  // namespace
}  // namespace hexad::tests
