// Hot experts with shadows on all ep ranks (schedule.moe.hot_experts: shadow). schedules_test.cpp tests that results
// equal the plain schedule's.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "framework/schedule/graph_runner.h"
#include "framework/schedule/simulator.h"
#include "parallel/comm/thread_group.h"
#include "tests/moe/scheduled_layer.h"

namespace hexad::tests {

using namespace base;
namespace {

using kernels::GroupOffsets;
using moe::RowGroups;
using schedule::Lane;
using schedule::Task;
using schedule::TaskGraph;
using schedule::TaskKind;

constexpr int64_t hidden = 5, width = 4;

moe::Experts::Config config_of(moe::ExpertKind kind) {
  return {.kind = kind,
          .experts = 4,
          .hidden = hidden,
          .expert_hidden = width,
          .init_std = 0.5,
          .output_init_std = 0.5,
          .bias = true,
          .gelu = {}};
}

// Experts of one of two ranks. Expert 1, which belongs to rank 0, is hot.
struct TwoRanks {
  TwoRanks(const comm::ProcessGroup& world, moe::ExpertKind kind)
      : mesh(world, {.dp = 2, .ep = 2}), experts(config_of(kind), Builder(lab.parameters, states, mesh, Dtype::f64)) {
    for (const auto& p : lab.parameters) {
      p->initialize(Lab::default_seed);
      if (p->name().ends_with("bias")) kernels::kernels(lab.context).pointwise.fill(lab.stream(), p->local(), 0.25);
    }
  }
  // Returns the gradients by parameter, and clears them as at the beginning of a step.
  std::vector<Tensor> taken_gradients() {
    std::vector<Tensor> out;
    for (const auto& p : lab.parameters) {
      out.push_back(copy_of(p->gradient_to_add(lab.stream())));
      p->clear_gradient();
    }
    return out;
  }

  Lab lab;
  StateSet states;
  mesh::Mesh mesh;
  moe::Experts experts;
  ep::HotExperts hot{{1}, 4, 2};
};

class Shadows : public testing::TestWithParam<std::tuple<moe::ExpertKind, bool>> {
 protected:
  static moe::ExpertKind kind() { return std::get<0>(GetParam()); }
  static bool dense() { return std::get<1>(GetParam()); }
};

// All rows of both ranks are for the hot expert. Sums of integers are exact in any order.
TEST_P(Shadows, GradientsOnIntegersEqualThoseOfRowsSentToTheExpertBitwise) {
  comm::with_ranks(2, [](const comm::ProcessGroup& world) {
    TwoRanks t(world, kind());
    Stream& s = t.lab.stream();
    constexpr int64_t rows = 8, half = rows / 2;
    const int64_t gates = kind() == moe::ExpertKind::swiglu ? 2 : 1;
    const auto integers = [&](int64_t columns) { return t.lab.integers({rows, columns}, -3, 4); };
    const Tensor x = integers(hidden), dy = integers(hidden), activated = integers(width),
                 dgate_up = integers(gates * width);
    const int64_t first = world.rank() * half;
    const auto all_or_none = [&](const Tensor& all) { return all.slice(0, 0, world.rank() == 0 ? rows : 0); };
    const auto mine = [&](const Tensor& all) { return copy_of(all.slice(0, first, first + half)); };

    const std::vector<int64_t> sent{0, 0, world.rank() == 0 ? rows : 0};
    t.experts.weight_gradients(s, all_or_none(x), {.gate_up = {}, .activated = all_or_none(activated), .weights = {}},
                               {.gate_up = all_or_none(dgate_up), .rows = {}}, all_or_none(dy),
                               {.rows = GroupOffsets::on_host(sent), .dense = dense()});
    const std::vector<Tensor> expected = t.taken_gradients();

    const std::vector<int64_t> own{0, 0, 0}, shadows{0, half};
    const RowGroups groups{
        .rows = GroupOffsets::on_host(own), .dense = dense(), .shadows = GroupOffsets::on_host(shadows)};
    const moe::ExpertActivations made{.gate_up = {}, .activated = mine(activated), .weights = {}};
    const moe::ExpertGradients gradients{.gate_up = mine(dgate_up), .rows = {}};
    moe::ShadowGradients of_shadows(t.experts.parameters(), t.hot);
    t.experts.shadow_gradients(s, mine(x), made, gradients, mine(dy), groups, of_shadows);
    of_shadows.sum(s, world);
    of_shadows.send_to_owners(s, world);
    of_shadows.add_own(s, world.rank());
    t.experts.weight_gradients(s, mine(x), made, gradients, mine(dy), groups);
    const std::vector<Tensor> actual = t.taken_gradients();
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) expect_bitwise(expected[i], actual[i], Zeros::expected);
  });
}

// Rows 0 to 2 are for expert 1 on its rank, and for its shadow on both ranks.
TEST_P(Shadows, ShadowsEqualTheirExperts) {
  std::vector<std::vector<Tensor>> by_rank(2);
  Tensor own_output, own_rows;
  comm::with_ranks(2, [&](const comm::ProcessGroup& world) {
    TwoRanks t(world, kind());
    Stream& s = t.lab.stream();
    const Tensor x = t.lab.randn({3, hidden}), dy = t.lab.randn({3, hidden});
    moe::ExpertWeights held = t.experts.hold(s, kernels::Direction::forward);
    held.receive_shadows(s, t.hot, world);
    const auto computed = [&](const RowGroups& groups) {
      moe::ExpertActivations made = held.activations(s, x, groups, {});
      const Tensor output = held.output(s, made, groups);
      return std::vector<Tensor>{to_host(copy_of(output)),
                                 to_host(copy_of(held.input_gradients(s, made, dy, groups, {}).rows))};
    };
    const std::vector<int64_t> none{0, 0, 0}, shadows{0, 3}, own{0, 0, 3};
    by_rank[world.rank()] =
        computed({.rows = GroupOffsets::on_host(none), .dense = dense(), .shadows = GroupOffsets::on_host(shadows)});
    if (world.rank() > 0) return;
    const std::vector<Tensor> expected = computed({.rows = GroupOffsets::on_host(own), .dense = dense()});
    own_output = expected[0], own_rows = expected[1];
  });
  for (const std::vector<Tensor>& of_rank : by_rank) {
    expect_bitwise(own_output, of_rank[0]);
    expect_bitwise(own_rows, of_rank[1]);
  }
}

INSTANTIATE_TEST_SUITE_P(, Shadows,
                         testing::Combine(testing::Values(moe::ExpertKind::swiglu, moe::ExpertKind::gelu),
                                          testing::Bool()));

// Three ranks have two experts each. The hot experts are one expert of each rank, both experts of rank 0, or one expert
// of rank 2. Most gradients cannot be divided equally among the ranks.
TEST(ShadowGradients, GiveEachOwnerTheSumsOfAnAllReduceBitwise) {
  constexpr int ranks = 3;
  for (const std::vector<int64_t>& hot : {std::vector<int64_t>{1, 2, 5}, {0, 1}, {5}})
    comm::with_ranks(ranks, [&](const comm::ProcessGroup& world) {
      SCOPED_TRACE(testing::PrintToString(hot));
      Lab lab;
      StateSet states;
      const mesh::Mesh mesh(world, {.dp = ranks, .ep = ranks});
      moe::Experts::Config config = config_of(moe::ExpertKind::swiglu);
      config.experts = 6;
      const moe::Experts experts(config, Builder(lab.parameters, states, mesh, Dtype::f64));
      lab.restart(Lab::default_seed + static_cast<uint64_t>(world.rank()));
      Stream& s = lab.stream();
      moe::ShadowGradients gradients(experts.parameters(), ep::HotExperts(hot, 6, ranks));
      std::vector<Tensor> expected;
      for (autograd::Parameter* p : experts.parameters()) {
        const Tensor mine = gradients.to_add(*p, s), sum = lab.randn(mine.shape());
        mine.copy_from(sum, s);
        s.wait(world.all_reduce(sum, comm::Reduce::sum, s));
        expected.push_back(sum);
      }
      const moe::ShadowGradients::Moved moved = gradients.moved(world.rank());
      const auto own = std::ranges::count_if(hot, [&](int64_t e) { return e / 2 == world.rank(); });
      int64_t bytes = 0;
      for (const Tensor& sum : expected) bytes += sum.bytes() / sum.dim(0) * own;
      EXPECT_EQ(moved.own, bytes);
      EXPECT_LE(moved.sent, gradients.part_bytes());
      EXPECT_LE(moved.received, moved.own);
      gradients.sum(s, world);
      gradients.send_to_owners(s, world);
      gradients.add_own(s, world.rank());
      for (size_t p = 0; p < expected.size(); ++p) {
        const Tensor actual = experts.parameters()[p]->gradient_to_add(s);
        for (int64_t e = 0; e < 2; ++e) {
          const auto at = std::ranges::find(hot, 2 * world.rank() + e) - hot.begin();
          const Tensor of_expert = copy_of(actual.slice(0, e, e + 1));
          Tensor sum = Tensor::zeros(of_expert.shape(), of_expert.dtype(), of_expert.device());
          if (at < std::ssize(hot)) sum = copy_of(expected[p].slice(0, at, at + 1));
          expect_bitwise(sum, of_expert, Zeros::expected);
        }
      }
    });
}

const Words skewed{"parallel.ep=4", "model.moe.routing=zipf", "model.moe.zipf_exponent=2"};
const Words shadow{"schedule.moe.hot_experts=shadow", "schedule.moe.hot_load=2"};

struct LayerRun {
  std::vector<TaskGraph> graphs;
  RouterStatistics statistics;
};
std::vector<LayerRun> runs_under(const Words& words) {
  std::vector<LayerRun> all(4);
  comm::with_ranks(4, [&](const comm::ProcessGroup& world) {
    ScheduledLayer lab(world, words);
    schedule::GraphCollector collector;
    lab.layer.run_passes_by(&collector);
    const RouterStatistics statistics = lab.run().statistics;
    LayerRun& run = all[world.rank()];
    run.graphs = std::move(collector.graphs);
    run.statistics.passes = statistics.passes, run.statistics.shadowed = statistics.shadowed;
  });
  return all;
}

// Returns the index of the task `name`, or -1 if there is none.
int index_of(const TaskGraph& g, const std::string& name) {
  const auto at = std::ranges::find_if(g.tasks(), [&](const Task& t) { return t.spec.name == name; });
  return at == g.tasks().end() ? -1 : static_cast<int>(at - g.tasks().begin());
}

bool follows(const TaskGraph& g, const std::string& later, const std::string& earlier) {
  const int at = index_of(g, later);
  return at >= 0 && std::ranges::count(g.tasks()[at].after, index_of(g, earlier)) > 0;
}

TEST(HotExpertsOfALayer, HaveATaskForEveryCollective) {
  for (const LayerRun& run : runs_under(joined(skewed, shadow))) {
    ASSERT_EQ(run.graphs.size(), 2u);
    for (const TaskGraph& g : run.graphs) {
      ASSERT_EQ(index_of(g, "shadows.broadcast"), 0) << g.to_string();  // before any row is sent
      EXPECT_EQ(g.tasks()[0].spec.lane, Lane::inter);
      EXPECT_TRUE(is_communication(g.tasks()[0].spec.kind));
      EXPECT_GT(std::max(g.tasks()[0].spec.cost.wire_bytes, g.tasks()[0].spec.cost.received_bytes), 0);
      EXPECT_TRUE(follows(g, "experts[0]", "shadows.broadcast"));
    }
    const TaskGraph& backward = run.graphs[1];
    ASSERT_GE(index_of(backward, "shadows.reduce_scatter"), 0) << backward.to_string();
    EXPECT_TRUE(follows(backward, "shadows.reduce_scatter", "shadows.gradients[0]"));
    EXPECT_TRUE(follows(backward, "shadows.a2a", "shadows.reduce_scatter"));
    EXPECT_TRUE(follows(backward, "shadows.add", "shadows.a2a"));
    EXPECT_GT(index_of(backward, "shadows.reduce_scatter"), index_of(backward, "combine.a2a[0]"));
    EXPECT_EQ(index_of(run.graphs[0], "shadows.reduce_scatter"), -1);
  }
}

TEST(HotExpertsOfALayer, ArePricedByLinksThatAProfileMeasures) {
  schedule::Rates rates = schedule::Rates::defaults();
  rates.other_links.reset();
  for (const TaskKind kind : {TaskKind::all_to_all, TaskKind::all_gather, TaskKind::reduce_scatter})
    rates.links.push_back({kind, "ep", 4, false, schedule::TimeCurve::linear(0, 1e6)});
  for (const LayerRun& run : runs_under(joined(skewed, shadow))) {
    ASSERT_EQ(run.graphs.size(), 2u);
    for (const TaskGraph& g : run.graphs) {
      EXPECT_TRUE(schedule::unmeasured_links(g, rates).empty());
      EXPECT_GT(rates.seconds(g.tasks()[0].spec), 0);
      EXPECT_GT(schedule::simulate(g, rates).total(), 0);
    }
  }
}

TEST(HotExpertsOfALayer, AreCountedInTheStatistics) {
  const auto hot = runs_under(joined(skewed, shadow)), cold = runs_under(skewed);
  for (size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(hot[r].statistics.passes, 1);
    EXPECT_GE(hot[r].statistics.shadowed, 1);
    EXPECT_LE(hot[r].statistics.shadowed, 2);  // the number of experts of a rank
    EXPECT_EQ(hot[r].statistics.shadowed, hot[0].statistics.shadowed);
    EXPECT_EQ(cold[r].statistics.shadowed, 0);
  }
}

TEST(HotExpertsOfALayer, SendFewerRows) {
  const auto sent = [](const std::vector<LayerRun>& runs) {
    int64_t bytes = 0;
    for (const LayerRun& run : runs)
      bytes += run.graphs[0].tasks()[index_of(run.graphs[0], "dispatch.a2a[0]")].spec.cost.wire_bytes;
    return bytes;
  };
  EXPECT_LT(sent(runs_under(joined(skewed, shadow))), sent(runs_under(skewed)));
}

// An expert of width 12 has as many elements as 36 rows, and an expert of width 20 as many as 60 rows. Expert 0 gets at
// most 48 of 96 rows, so it is hot only if its width is 12.
TEST(HotExpertsOfALayer, HaveRowsAtLeastAsLargeAsTheirWeightsByDefault) {
  const Words by_default{"schedule.moe.hot_experts=shadow"};
  EXPECT_GE(runs_under(joined(skewed, by_default))[0].statistics.shadowed, 1);
  EXPECT_EQ(runs_under(joined(skewed, joined(by_default, {"model.moe.expert_hidden=20"})))[0].statistics.shadowed, 0);
}

TEST(HotExpertsOfALayer, ChangeNothingBelowTheMinimumLoad) {
  const auto hot = runs_under(joined(skewed, {"schedule.moe.hot_experts=shadow", "schedule.moe.hot_load=100"})),
             stay = runs_under(skewed);
  for (size_t r = 0; r < 4; ++r)
    for (size_t pass = 0; pass < 2; ++pass)
      EXPECT_EQ(hot[r].graphs[pass].to_string(), stay[r].graphs[pass].to_string());
}

}  // namespace
}  // namespace hexad::tests
