// Tests that every listed schedule gives the results of the plain schedule, under random delays.
// - Outputs and input gradients are bitwise identical. They agree up to rounding if a schedule computes sums in another
//   order.
// - The gradients of weights agree up to rounding, because they are sums of the same numbers, added by chunk.
#include <gtest/gtest.h>

#include <fstream>

#include "framework/base/tolerance.h"
#include "framework/schedule/graph_runner.h"
#include "layers/moe/routes/routes.h"
#include "parallel/comm/thread_group.h"
#include "tests/moe/every_schedule.h"
#include "tests/moe/scheduled_layer.h"
#include "tests/training/test_folder.h"

namespace hexad::tests {

using namespace base;
namespace {

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
                      {"Capacity", {"model.moe.capacity_factor=0.8"}},
                      {"BiasesAndGelu", {"model.bias=true", "model.moe.expert=gelu"}},
                      {"Zipf", {"model.moe.routing=zipf", "model.moe.zipf_exponent=2"}}};
INSTANTIATE_TEST_SUITE_P(, EverySchedule, testing::ValuesIn(loads), [](const auto& i) { return i.param.name; });

// Experts 1 to 7 get no rows. Ranks without expert 0 get no rows.
TEST(Schedules, EqualThePlainScheduleIfEveryTokenChoosesOneExpert) {
  const Scratch scratch;
  std::ofstream(scratch / "trace") << "0\n";
  for (const Mesh4& m : meshes)
    if (is_telling(m))
      compare(m, {"model.moe.top_k=1", "model.moe.normalize=false", "model.moe.routing=trace",
                  "model.moe.trace=" + scratch / "trace"});
}

// Gradients of weights and recomputed values are also bitwise identical, because only the GEMM calls differ.
TEST(Schedules, DenseGemmsEqualGroupedGemmsBitwise) {
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

// EPS-MoE's LocalReduce over expert groups: a rank adds up a token's results in the order of the token's slots, even
// if the experts are in groups.
TEST(Schedules, TokenRowsInExpertGroupsEqualOneGroupBitwise) {
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

// DeepSpeed-MoE's padding sends more bytes but does not change results.
TEST(Schedules, PaddingDoesNotChangeResults) {
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

// Parm, equation 1: with the capacity factor f, y = f * k * B * L * M * N_ESP elements are exchanged.
TEST(Schedules, PaddingSendsTheCapacityFactorTimesAsManyBytes) {
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

TEST(Schedules, ByLoadUsesDenseGemmsIfTheMeanRowsOfActiveExpertsReachTheThreshold) {
  using moe::Gemms;
  const auto is_dense = [](Gemms gemms, std::optional<int64_t> rows, std::vector<int64_t> offsets) {
    moe::MoeSchedule s;
    s.gemms = gemms, s.dense_rows = rows;
    return s.is_dense(offsets);
  };
  EXPECT_TRUE(is_dense(Gemms::by_load, 4, {0, 7, 7, 8}));  // 8 rows for two active experts
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
