// Sequence lengths given as text ("4K..1M"), and the placement of expert groups relative to context-parallel groups.
#include "tools/plan/context_expansion.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "tools/plan/step_forecast.h"

namespace hexad::plan {
namespace {

using base::Axis;
using Kind = ContextExpansion::Kind;
using mesh::Layout;
using Nodes = std::vector<std::vector<int>>;

// Expects the group of rank 8 * n + t (t < 8) to consist of the ranks 8 * m + t, for each m in the list of `nodes` that
// contains n.
void expect_groups(const Layout& layout, Axis axis, const Nodes& nodes) {
  int ranks = 0;
  for (const std::vector<int>& group : nodes)
    for (const int node : group)
      for (int t = 0; t < 8; ++t, ++ranks) {
        std::vector<int> expected;
        for (const int m : group) expected.push_back(8 * m + t);
        EXPECT_EQ(layout.members(axis, 8 * node + t), expected) << mesh::name_of(axis) << " of rank " << 8 * node + t;
      }
  EXPECT_EQ(ranks, 64);
}

// The layout is from MoNTA, Fig. 12, as the paper's text describes the figure. The order is [TP/SP, EP, CP, PP, DP].
// Each group of 8 tp ranks fills a node of 8 GPUs. Each expert is split over a node. The GPUs of an EP group have the
// same position in their nodes.
TEST(ContextExpansion, HorizontalGroupsOf64RanksMatchMontaFig12a) {
  const Layout layout({.cp = 2, .tp = 8, .ep = 4}, 64);
  expect_groups(layout, Axis::ep, {{0, 1, 2, 3}, {4, 5, 6, 7}});
  expect_groups(layout, Axis::cp, {{0, 4}, {1, 5}, {2, 6}, {3, 7}});  // orthogonal to ep
  expect_groups(layout, Axis::dp, {{0, 1, 2, 3}, {4, 5, 6, 7}});
  expect_groups(layout, Axis::edp, {{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  for (int rank = 0; rank < 64; ++rank)
    for (const int peer : layout.members(Axis::tp, rank)) EXPECT_EQ(peer / 8, rank / 8);
}

TEST(ContextExpansion, VerticalGroupsOf64RanksMatchMontaFig12b) {
  const Layout whole({.cp = 8, .tp = 8, .ep = 8}, 64);
  expect_groups(whole, Axis::ep, {{0, 1, 2, 3, 4, 5, 6, 7}});
  expect_groups(whole, Axis::cp, {{0, 1, 2, 3, 4, 5, 6, 7}});  // the same direction as ep
  expect_groups(whole, Axis::dp, {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}});
  const Layout replicas({.cp = 4, .tp = 8, .ep = 4}, 64);
  expect_groups(replicas, Axis::ep, {{0, 1, 2, 3}, {4, 5, 6, 7}});
  expect_groups(replicas, Axis::cp, {{0, 1, 2, 3}, {4, 5, 6, 7}});
  expect_groups(replicas, Axis::dp, {{0, 4}, {1, 5}, {2, 6}, {3, 7}});
}

void expect_expansion(const Layout& layout, Kind kind, int64_t switched, int64_t step, int64_t micro_batches) {
  const ContextExpansion e = expansion_of(layout);
  EXPECT_EQ(e.kind, kind) << layout.to_string();
  EXPECT_EQ(e.switched, switched) << layout.to_string();
  EXPECT_EQ(e.smallest_step, step) << layout.to_string();
  EXPECT_EQ(e.micro_batches, micro_batches) << layout.to_string();
}

TEST(ContextExpansion, HorizontalSwitchesTheProductOfEpAndCp) {
  expect_expansion(Layout({.tp = 8, .ep = 8}, 64), Kind::none, 8, 64, 8);
  expect_expansion(Layout({.cp = 2, .tp = 8, .ep = 8}, 128), Kind::horizontal, 16, 128, 8);
  expect_expansion(Layout({.cp = 4, .tp = 8, .ep = 8}, 256), Kind::horizontal, 32, 256, 8);
}

TEST(ContextExpansion, VerticalSwitchesTheLargerOfEpAndCp) {
  expect_expansion(Layout({.cp = 8, .tp = 8, .ep = 8}, 128), Kind::vertical, 8, 64, 1);
  expect_expansion(Layout({.cp = 32, .tp = 8, .ep = 8}, 256), Kind::vertical, 32, 256, 1);
  expect_expansion(Layout({.pp = 2, .cp = 8, .tp = 8, .ep = 8}, 256), Kind::vertical, 8, 128, 1);
  // Experts are placed along cp, although cp < ep, if dp has too few ranks for ep.
  expect_expansion(Layout({.cp = 2, .ep = 4}, 4), Kind::vertical, 4, 4, 2);
}

TEST(ContextExpansion, ExpertsFoldedOverTensorRanksNeedFewerRanks) {
  expect_expansion(Layout({.cp = 2, .tp = 8, .ep = 8, .etp = 1}, 32), Kind::horizontal, 2, 16, 1);
  expect_expansion(Layout({.cp = 2, .tp = 4, .ep = 8, .etp = 1}, 32), Kind::horizontal, 4, 16, 2);
}

// A job can grow by the smallest step and keep the sizes of its groups. A job with fewer ranks than the smallest step
// is illegal.
TEST(ContextExpansion, SmallestStepIsTheLeastLegalNumberOfRanks) {
  for (const mesh::Sizes& sizes : {mesh::Sizes{.cp = 2, .tp = 2, .ep = 4}, mesh::Sizes{.cp = 4, .tp = 2, .ep = 4},
                                   mesh::Sizes{.pp = 2, .cp = 4, .ep = 2}, mesh::Sizes{.tp = 2, .ep = 4, .etp = 1}}) {
    const int world = 128;
    const Layout layout(sizes, world);
    const auto step = static_cast<int>(expansion_of(layout).smallest_step);
    mesh::Sizes kept = sizes;
    kept.expansion = layout.expansion();
    EXPECT_NO_THROW(Layout(kept, world + step)) << layout.to_string();
    EXPECT_NO_THROW(Layout(kept, step)) << layout.to_string();
    for (int fewer = 1; fewer < step; ++fewer) EXPECT_THROW(Layout(kept, fewer), mesh::IllegalLayout) << fewer;
  }
}

TEST(ContextExpansion, NamesTheChangedAxes) {
  const std::vector<ChangedAxis> changed =
      changed_axes(Layout({.tp = 4, .ep = 4}, 32), Layout({.cp = 2, .tp = 4, .ep = 4}, 32));
  ASSERT_EQ(changed.size(), 2U);
  EXPECT_EQ(changed[0].axis, Axis::cp);
  EXPECT_EQ(changed[0].from, 1);
  EXPECT_EQ(changed[0].to, 2);
  EXPECT_EQ(changed[1].axis, Axis::dp);
  EXPECT_EQ(changed[1].to, 4);
}

TEST(ContextLengths, DoubleFromFirstToLast) {
  EXPECT_EQ(context_lengths("4096"), (std::vector<int64_t>{4096}));
  EXPECT_EQ(context_lengths("4K"), (std::vector<int64_t>{4096}));
  EXPECT_EQ(context_lengths("3K..12288"), (std::vector<int64_t>{3072, 6144, 12288}));
  const std::vector<int64_t> long_path = context_lengths("4K..1M");
  EXPECT_EQ(long_path.size(), 9U);
  EXPECT_EQ(long_path.back(), 1 << 20);
  EXPECT_EQ(context_lengths("4M"), (std::vector<int64_t>{max_micro_batch_tokens}));
  EXPECT_EQ(context_text(1 << 20), "1M");
  EXPECT_EQ(context_text(6144), "6K");
  EXPECT_EQ(context_text(1000), "1000");
}

std::string refusal(std::string_view text) {
  try {
    context_lengths(text);
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::usage);
    return e.what();
  }
  return "accepted";
}

TEST(ContextLengths, RefusalsNameTheNearestRange) {
  EXPECT_EQ(refusal("3K..20K"),
            "'3K..20K' given, expected a last length that is 3K times a power of two; nearest: 3K..12K, 3K..24K");
  EXPECT_EQ(refusal("8K..4K"),
            "'8K..4K' given, expected a last length that is 8K times a power of two; nearest: 8K..8K");
  for (const char* text : {"", "0", "-4", "4G", "4K..", "..4K", "4KK", "8M", "2000M", "4K..8K..16K", "9999999999999M"})
    EXPECT_NE(refusal(text).find("expected a sequence length from 1 to 4M tokens"), std::string::npos) << text;
}

}  // namespace
}  // namespace hexad::plan
