// All meshes of a number of ranks, runs that cover every pair of settings, and layouts as text.
#include "tools/verify/covering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "framework/base/error.h"
#include "parallel/comm/node_groups.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace base;
using namespace verify;
namespace {

std::string nothing_is_illegal(const Variant&) { return {}; }

const Option& option_of(std::string_view name) {
  const auto found = std::find_if(options().begin(), options().end(), [&](const Option& o) { return o.name == name; });
  require(found != options().end(), "option ", name, " is unknown");
  return *found;
}

// Returns the layout of a mesh. `order` is its order of axes, a value of the option `order`.
mesh::Layout layout_of(const MeshSizes& m, const std::string& order) {
  return {{.pp = m[Axis::pp],
           .cp = m[Axis::cp],
           .tp = m[Axis::tp],
           .ep = m[Axis::ep],
           .etp = m[Axis::etp],
           .order = order == "auto" ? "" : order},
          m.world()};
}

TEST(Meshes, CountTheFactorisationsOfBothViews) {
  EXPECT_EQ(meshes_of(1).size(), 1u);
  EXPECT_EQ(meshes_of(2).size(), 10u);
  EXPECT_EQ(meshes_of(4).size(), 46u);
  EXPECT_EQ(meshes_of(6).size(), 100u);
  EXPECT_EQ(meshes_of(8).size(), 146u);
  EXPECT_EQ(meshes_of(12).size(), 460u);
}

TEST(Meshes, AreDistinctAndUseAllGivenRanks) {
  std::set<std::array<int, 7>> seen;
  for (const MeshSizes& m : meshes_of(12)) {
    EXPECT_EQ(m.world(), 12);
    EXPECT_EQ(m[Axis::pp] * m[Axis::edp] * m[Axis::ep] * m[Axis::etp], 12);
    EXPECT_TRUE(seen.insert(m.sizes).second);
  }
}

TEST(Meshes, AreAcceptedByTheLayout) {
  for (const MeshSizes& m : meshes_of(8)) {
    const mesh::Layout layout(
        {.pp = m[Axis::pp], .cp = m[Axis::cp], .tp = m[Axis::tp], .ep = m[Axis::ep], .etp = m[Axis::etp]}, 8);
    for (Axis axis : {Axis::pp, Axis::dp, Axis::cp, Axis::tp, Axis::edp, Axis::ep, Axis::etp})
      EXPECT_EQ(layout.size(axis), m[axis]);
  }
}

// On simulated nodes, every group that sends rows has the same number of ranks on each of its nodes. All-to-alls in two
// steps differ from those in one step on every mesh that has two levels in some order of axes.
TEST(Meshes, AllToAllMattersIfAnOrderMakesTwoLevels) {
  const Option& option = option_of("all_to_all");
  for (int world : {1, 2, 4, 6, 8}) {
    const std::vector<int> nodes = nodes_of_threads(world);
    int with_levels = 0;
    for (const MeshSizes& m : meshes_of(world)) {
      bool in_any_order = false;
      for (const std::string& order : option_of("order").values) {
        SCOPED_TRACE(cat(Variant(m).text(), ", order ", order));
        const mesh::Layout layout = layout_of(m, order);
        bool all = true;
        for (int rank = 0; rank < world; ++rank)
          for (const auto& group : {layout.members(Axis::ep, rank), layout.expert_sharers(rank)}) {
            std::vector<int> of_group;
            for (int r : group) of_group.push_back(nodes[r]);
            EXPECT_GT(comm::NodeGrid(of_group).places(), 0);
            all = all && comm::NodeGrid(of_group).two_levels();
          }
        EXPECT_EQ(has_two_levels(layout, nodes), all);
        in_any_order = in_any_order || all;
      }
      EXPECT_TRUE(option.matters(m) || !in_any_order) << Variant(m).text();
      with_levels += in_any_order ? 1 : 0;
    }
    EXPECT_EQ(with_levels > 0, world == 4 || world == 8) << world << " ranks";
  }
}

// Groups of a prime number of ranks have one level on all nodes.
TEST(Meshes, AllToAllMattersIfSomeNodesMakeTwoLevels) {
  std::set<int> sizes;
  for (const MeshSizes& m : meshes_of(12))
    if (option_of("all_to_all").matters(m)) sizes.insert(m[Axis::ep]);
  EXPECT_EQ(sizes, (std::set{4, 6, 12}));
  EXPECT_FALSE(option_of("all_to_all").matters(MeshSizes{{1, 5, 1, 1, 1, 5, 1}}));
}

// There are six processes on two nodes. Six threads would have one simulated node.
TEST(Covering, TriesTwoStepsOnTheNodesOfProcesses) {
  const std::vector<int> nodes{0, 0, 0, 1, 1, 1};
  const auto illegal = [&](const Variant& v) -> std::string {
    const bool two_steps = v["all_to_all"] == "hierarchical";
    return two_steps && !has_two_levels(layout_of(v.mesh, v["order"]), nodes) ? "one level" : "";
  };
  const Covering c = cover(meshes_of(6), illegal, 1);
  const auto tried = std::ranges::count_if(c.runs, [](const Variant& v) { return v["all_to_all"] == "hierarchical"; });
  EXPECT_GT(tried, 0);
}

// Returns the pairs that a run covers, as texts instead of the generator's numbers. A pair has two settings, or a
// setting and an axis with several ranks.
std::set<std::string> pairs_of(const Variant& v) {
  std::vector<std::string> settings;
  for (size_t i = 0; i < options().size(); ++i)
    if (options()[i].matters(v.mesh)) settings.push_back(options()[i].name + "=" + v[options()[i].name]);
  std::set<std::string> out;
  for (size_t i = 0; i < settings.size(); ++i) {
    for (size_t j = i + 1; j < settings.size(); ++j) out.insert(settings[i] + " " + settings[j]);
    for (Axis axis : {Axis::pp, Axis::dp, Axis::cp, Axis::tp, Axis::edp, Axis::ep, Axis::etp})
      if (v.mesh[axis] > 1) out.insert(settings[i] + " " + std::string(mesh::name_of(axis)));
  }
  return out;
}

// Returns every pair that any legal variant of these meshes could cover.
std::set<std::string> all_pairs(const std::vector<MeshSizes>& meshes, const Illegal& illegal) {
  std::set<std::string> out;
  for (const MeshSizes& m : meshes)
    for (size_t i = 0; i < options().size(); ++i)
      for (size_t j = i + 1; j < options().size(); ++j)
        for (size_t a = 0; a < options()[i].values.size(); ++a)
          for (size_t b = 0; b < options()[j].values.size(); ++b) {
            Variant v(m);
            if (options()[i].matters(m)) v.choice[i] = static_cast<int>(a);
            if (options()[j].matters(m)) v.choice[j] = static_cast<int>(b);
            if (!illegal(v).empty()) continue;
            std::vector<std::string> settings;
            for (const auto& [option, value] : {std::pair(i, a), std::pair(j, b)})
              if (options()[option].matters(m))
                settings.push_back(options()[option].name + "=" + options()[option].values[value]);
            if (settings.size() == 2) out.insert(settings[0] + " " + settings[1]);
            for (const std::string& setting : settings)
              for (Axis axis : {Axis::pp, Axis::dp, Axis::cp, Axis::tp, Axis::edp, Axis::ep, Axis::etp})
                if (m[axis] > 1) out.insert(setting + " " + std::string(mesh::name_of(axis)));
          }
  return out;
}

class Covers : public testing::TestWithParam<int> {};

TEST_P(Covers, EveryMeshAndEveryPairAtLeastOnce) {
  const auto meshes = meshes_of(GetParam());
  const Covering c = cover(meshes, nothing_is_illegal, 1);
  EXPECT_EQ(c.meshes, static_cast<int64_t>(meshes.size()));
  EXPECT_TRUE(c.refused.empty());
  EXPECT_TRUE(c.impossible.empty());
  std::set<std::string> shown;
  for (const Variant& v : c.runs) shown.merge(pairs_of(v));
  EXPECT_EQ(shown, all_pairs(meshes, nothing_is_illegal));
  EXPECT_EQ(c.pairs, static_cast<int64_t>(shown.size()));
  for (size_t i = 0; i < meshes.size(); ++i) EXPECT_EQ(c.runs[i].mesh, meshes[i]);
  for (size_t i = meshes.size(); i < c.runs.size(); ++i)
    EXPECT_NE(std::find(meshes.begin(), meshes.end(), c.runs[i].mesh), meshes.end());
}

INSTANTIATE_TEST_SUITE_P(World, Covers, testing::Values(1, 2, 3, 4, 6, 8), testing::PrintToStringParamName());

TEST(Covering, NeedsFewRunsInAdditionToTheMeshes) {
  // 10 of the 46 meshes of 4 ranks have stages. Only these 10 meshes can cover the 80 pairs of pipeline and moe, and
  // many other pairs. In 6 meshes, the ep group has two levels. Only these 6 meshes can cover the 20 pairs of
  // all_to_all and moe. Every subject is paired with every value of the other options. Windows need at most 10 more
  // runs.
  EXPECT_LE(cover(meshes_of(4), nothing_is_illegal, 1).runs.size(), 46u + 159u + 42u + 10u);
  EXPECT_LE(cover(meshes_of(8), nothing_is_illegal, 1).runs.size(), 146u + 100u + 44u + 10u);
}

TEST(Meshes, EveryOrderIsLegalOnEveryMesh) {
  const Option& option = option_of("order");
  EXPECT_EQ(option.values.front(), "auto");
  for (const MeshSizes& m : meshes_of(8))
    for (size_t i = 1; i < option.values.size(); ++i)
      EXPECT_EQ(layout_of(m, option.values[i]).order(), option.values[i]);
  EXPECT_FALSE(option.matters(MeshSizes{{1, 8, 1, 1, 8, 1, 1}}));
  EXPECT_TRUE(option.matters(MeshSizes{{1, 8, 1, 1, 4, 2, 1}}));
}

TEST(Covering, IsAFunctionOfTheSeed) {
  const auto texts = [](uint64_t seed) {
    std::vector<std::string> out;
    for (const Variant& v : cover(meshes_of(4), nothing_is_illegal, seed).runs) out.push_back(v.text());
    return out;
  };
  EXPECT_EQ(texts(1), texts(1));
  EXPECT_NE(texts(1), texts(2));
}

TEST(Covering, LeavesOutIllegalVariantsAndCountsMeshesByReason) {
  const auto illegal = [](const Variant& v) -> std::string {
    if (v.mesh[Axis::tp] == 8) return "too many heads";
    if (v["zero"] == "3" && v.mesh[Axis::pp] > 1) return "no zero 3 with stages";
    if (v["sp"] == "true" && v["recompute"] == "norms") return "neither sp with norms";
    return {};
  };
  const Covering c = cover(meshes_of(8), illegal, 1);
  EXPECT_EQ(c.meshes, 146 - 10);
  EXPECT_EQ(c.refused, (std::map<std::string, int64_t>{{"too many heads", 10}}));
  // On meshes with stages, zero=3 is illegal by itself, so the pair of zero=3 and stages is not counted as impossible.
  // norms and sp are legal alone, but not together.
  EXPECT_EQ(c.impossible, (std::vector<std::string>{"recompute=norms with sp=true"}));
  for (const Variant& v : c.runs) EXPECT_EQ(illegal(v), "") << v.text();
  std::set<std::string> shown;
  for (const Variant& v : c.runs) shown.merge(pairs_of(v));
  EXPECT_EQ(shown, all_pairs(meshes_of(8), illegal));
}

TEST(Variants, TextIsReadBack) {
  for (const int world : {1, 2, 6, 8})
    for (const Variant& v : cover(meshes_of(world), nothing_is_illegal, 3).runs) {
      const auto read = parse_layouts(v.text(), world);
      ASSERT_EQ(read.size(), 1u) << v.text();
      EXPECT_EQ(read[0], v) << v.text() << " read as " << read[0].text();
    }
}

TEST(Variants, ListsMayOmitDerivedSizes) {
  const auto read = parse_layouts("tp=2,cp=2;pp=2,ep=4,etp=1,zero=1", 8);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].mesh.sizes, (std::array{1, 2, 2, 2, 4, 1, 2}));
  EXPECT_EQ(read[1].mesh.sizes, (std::array{2, 4, 1, 1, 1, 4, 1}));
  EXPECT_EQ(read[1]["zero"], "1");
  EXPECT_EQ(read[0].text(), "dp=2,cp=2,tp=2");
  EXPECT_EQ(read[1].text(), "pp=2,dp=4,ep=4,zero=1");
}

TEST(Variants, HaveAnOverrideForEveryValue) {
  for (const Option& option : options()) {
    EXPECT_GE(option.values.size(), 2u) << option.name;
    if (!option.sets.empty()) {
      EXPECT_EQ(option.sets.size(), option.values.size()) << option.name;
    }
    EXPECT_TRUE(option.key.empty() || option.sets.empty()) << option.name;
  }
}

TEST(Variants, AreRecipeOverrides) {
  EXPECT_EQ(parse_layouts("tp=2,ep=4,etp=1,sp=true", 8)[0].overrides(),
            (std::vector<std::string>{"parallel.pp=1",
                                      "parallel.cp=1",
                                      "parallel.tp=2",
                                      "parallel.ep=4",
                                      "parallel.etp=1",
                                      "parallel.sp=true",
                                      "parallel.zero=0",
                                      "schedule.pipeline.kind=gpipe",
                                      "schedule.pipeline.overlap=none",
                                      "parallel.cp_kind=ring",
                                      "parallel.cp_expansion=auto",
                                      "parallel.order=auto",
                                      "schedule.moe.duplicates=pause_before_gate",
                                      "schedule.moe.esp_exchange=auto",
                                      "schedule.moe.all_to_all=direct",
                                      "schedule.moe.rows=slot",
                                      "schedule.moe.gemms=grouped",
                                      "schedule.moe.dense_rows=auto",
                                      "schedule.moe.compute_share=1",
                                      "schedule.moe.shared=after",
                                      "schedule.moe.hot_experts=stay",
                                      "schedule.moe.hot_load=auto",
                                      "schedule.moe.capacity_padding=none",
                                      "schedule.moe.memory_reuse=none",
                                      "schedule.moe.memory_limit=none",
                                      "recompute=none",
                                      "offload.optimizer=none",
                                      "offload.activations=false",
                                      "schedule.worker_lanes=false"}));
  const auto cut = parse_layouts("ep=2,moe=tokens", 2)[0].overrides();
  EXPECT_NE(std::find(cut.begin(), cut.end(), "schedule.moe.chunk_by=tokens"), cut.end());
}

TEST(Variants, IllegalListIsRefusedWithLegalValues) {
  const auto message = [](const char* text) { return message_of(ExitCode::usage, [&] { parse_layouts(text, 8); }); };
  EXPECT_EQ(message("tp=3"),
            "--layouts: 'tp=3': pp 1 x cp 1 x tp 3 does not divide the 8 ranks of --world; expected a divisor");
  EXPECT_EQ(message("dp=2,tp=2"),
            "--layouts: 'dp=2,tp=2': pp 1 x cp 1 x tp 2 x dp 2 is 4, but must equal the 8 ranks of --world");
  EXPECT_EQ(message("pp=2,ep=8"),
            "--layouts: 'pp=2,ep=8': ep 8 x etp 1 does not divide the 4 ranks of a stage; expected a divisor");
  EXPECT_EQ(message("tp"), "--layouts: 'tp': 'tp' is not of the form name=value, such as tp=2");
  EXPECT_EQ(message("tp=two"), "--layouts: 'tp=two': tp is 'two', expected a whole number of ranks, at least 1");
  EXPECT_EQ(message("tp=2,zero=4"), "--layouts: 'tp=2,zero=4': zero is '4', expected one of 0, 1, 2, 3");
  EXPECT_EQ(message("pp=2,pipelin=1f1b"),
            "--layouts: 'pp=2,pipelin=1f1b': unknown name 'pipelin'; did you mean 'pipeline'? Known names: pp, dp, "
            "cp, tp, edp, ep, etp, sp, zero, pipeline, overlap, cp_kind, expansion, order, duplicates, esp_exchange, "
            "all_to_all, "
            "rows, gemms, compute_share, shared, hot_experts, capacity_padding, window, moe, memory_reuse, recompute, "
            "bucket_bytes, "
            "offload, "
            "activations, worker_lanes, transport, "
            "start, subject");
  EXPECT_TRUE(message("foo=2").starts_with("--layouts: 'foo=2': unknown name 'foo'. Known names: pp, dp"));
  EXPECT_EQ(message("sp=true"), "--layouts: 'sp=true': sp has no effect on this mesh, dp=8; remove it");
  EXPECT_EQ(message(";"),
            "--layouts: ';' names no layout; expected all, a number, or a list such as tp=2,cp=2;pp=2,ep=4,zero=1");
}

}  // namespace
}  // namespace hexad::tests
