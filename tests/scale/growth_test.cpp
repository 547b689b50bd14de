// The costs of one rank grow with the number of ranks at most as docs/communication.md states.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "tools/bench/growth_rows.h"

namespace hexad::bench {
namespace {

constexpr int64_t kib = 1024, mib = 1024 * kib;

const GrowthRow& row_of(const std::vector<GrowthRow>& rows, const std::string& activity) {
  const auto found = std::ranges::find(rows, activity, &GrowthRow::activity);
  if (found == rows.end()) throw std::logic_error("the table of growth has no row for the activity " + activity);
  return *found;
}

// Maximum number of messages and maximum bytes of memory of an activity among `world` ranks. `log` is log2(world).
struct Bound {
  std::string activity;
  std::function<int64_t(int64_t world, int64_t log)> messages, memory;
};

void expect_within(const std::vector<GrowthRow>& rows, const std::vector<Bound>& bounds, int world) {
  const int64_t log = std::bit_width(static_cast<unsigned>(world)) - 1;
  EXPECT_EQ(rows.size(), bounds.size());
  for (const Bound& bound : bounds) {
    const GrowthRow& row = row_of(rows, bound.activity);
    EXPECT_LE(row.messages, bound.messages(world, log)) << row.activity << " among " << world << " ranks";
    EXPECT_LE(row.memory_bytes, bound.memory(world, log)) << row.activity << " among " << world << " ranks";
    EXPECT_GE(row.seconds, 0);
  }
}

int64_t none(int64_t, int64_t) { return 0; }
// Returns 256 bytes for each rank of the job, plus 4 MiB.
int64_t few_words_a_rank(int64_t world, int64_t) { return 256 * world + 4 * mib; }

const std::vector<Bound> bounds{
    {"nodes", none, [](int64_t world, int64_t) { return 64 * world + 16 * kib; }},
    // There are about 20 groups. Each group makes one reduction along a tree.
    {"mesh and groups", [](int64_t, int64_t log) { return 24 * 2 * log; }, few_words_a_rank},
    // There is one reduction along a tree, and one exchange among the eight ranks of a node.
    {"cores of a node", [](int64_t, int64_t log) { return 2 * log + 32; }, [](int64_t, int64_t) { return mib; }},
    {"groups of parameters", none, few_words_a_rank},
    // There are nine agreements and a gather. A step of a gather may have two messages.
    {"control of a step", [](int64_t, int64_t log) { return 10 * 4 * log; }, few_words_a_rank},
    {"control of a window", [](int64_t, int64_t log) { return 15 * 10 * 4 * log; }, few_words_a_rank},
    {"comparison of replicas", [](int64_t, int64_t log) { return 6 * log + 48; }, few_words_a_rank},
    // Every rank exchanges parts with every other rank, through buffers of bounded size.
    {"sum over all ranks", [](int64_t world, int64_t) { return 16 * world; },
     [](int64_t world, int64_t) { return 512 * world + 9 * mib; }},
    {"all-to-all of all ranks", [](int64_t world, int64_t) { return 2 * world; },
     [](int64_t world, int64_t) { return kib * world + mib; }},
};

TEST(Growth, CostsOfARankAreBoundedUpTo65536Ranks) {
  for (const int world : {64, 1024, 16384, 65536}) expect_within(growth_rows(world), bounds, world);
}

TEST(Growth, GroupsOf16384RanksNeedLessThan50Megabytes) {
  EXPECT_LT(row_of(growth_rows(16384), "mesh and groups").memory_bytes, 50'000'000);
}

TEST(Growth, AgreementsDoNotSendALongMessageToEveryRank) {
  for (const int world : {1024, 65536}) {
    const std::vector<GrowthRow> rows = growth_rows(world);
    // To sum floating-point numbers, the ranks gather them and then add them up. In each of four sums, rank 0 sends and
    // receives 8 bytes per rank. Rank 0 also receives 16 bytes per rank with the times of the ranks.
    EXPECT_LE(row_of(rows, "control of a step").message_bytes, (4 * 2 * 8 + 16) * int64_t{world} + 16 * kib);
    EXPECT_LE(row_of(rows, "mesh and groups").message_bytes, 8 * kib);
  }
}

TEST(Growth, MemoryForACheckpointIsAtMostLinearInTheRanksUpTo16384) {
  const std::vector<Bound> of_checkpoints{
      {"merging of a manifest", none, [](int64_t world, int64_t) { return 8 * kib * world + mib; }},
      {"files of a manifest", none, [](int64_t world, int64_t) { return 8 * kib * world + 32 * mib; }},
      {"opening of a checkpoint", none, [](int64_t world, int64_t) { return 4 * kib * world + 32 * mib; }}};
  for (const int world : {64, 1024, 16384}) expect_within(checkpoint_growth_rows(world), of_checkpoints, world);
}

}  // namespace
}  // namespace hexad::bench
