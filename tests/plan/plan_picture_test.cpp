// Pictures of plans: well-formed XML with the nodes, ranks and traffic of a layout.
#include "tools/plan/plan_picture.h"

#include <gtest/gtest.h>

#include "tests/support/svg.h"

namespace hexad::tests {
namespace {

using namespace plan;
using comm::TrafficClass;

constexpr double mib = 1 << 20;

std::string picture_of(const mesh::Layout& layout, int64_t ranks_per_node, std::vector<GroupBytes> traffic = {},
                       std::string title = "plan") {
  const std::string svg = plan_picture({.title = std::move(title),
                                        .layout = layout,
                                        .ranks_per_node = ranks_per_node,
                                        .domain = ranks_per_node,
                                        .traffic = std::move(traffic)});
  EXPECT_EQ(flaw(svg), "");
  return svg;
}

TEST(PlanPicture, DrawsEveryRankOfEightNodes) {
  const mesh::Layout layout({.pp = 2, .tp = 8}, 64);
  const std::string svg = picture_of(layout, 8);
  EXPECT_EQ(count(svg, "<g class=\"node\">"), 8);
  EXPECT_EQ(count(svg, "<g class=\"rank c0\">"), 32);
  EXPECT_EQ(count(svg, "<g class=\"rank c1\">"), 32);
  for (int rank = 0; rank < 64; ++rank) EXPECT_EQ(count(svg, base::cat("<title>rank ", rank, ":")), 1) << rank;
  EXPECT_EQ(count(svg, ">stage 0</text>"), 5) << "four nodes and the legend name stage 0";
  EXPECT_EQ(count(svg, "No rank sends anything."), 1);
}

TEST(PlanPicture, DrawsOneNodeOfEachKindOfLargeWorlds) {
  const mesh::Layout layout({.pp = 4, .tp = 8}, 1024);
  const std::string svg = picture_of(layout, 8);
  EXPECT_EQ(count(svg, "<g class=\"node\">"), 4);
  EXPECT_EQ(count(svg, "<title>rank "), 32);
  EXPECT_EQ(count(svg, ", x 32 nodes</text>"), 4);
  EXPECT_EQ(count(svg, ">node 0, x 32 nodes</text>"), 1);
}

TEST(PlanPicture, CountsKindsOfOmittedNodes) {
  const std::string svg = picture_of(mesh::Layout({.pp = 32, .tp = 8}, 1024), 8);
  EXPECT_EQ(count(svg, "<g class=\"node\">"), 16);
  EXPECT_EQ(count(svg, ">and 64 nodes of 16 more kinds that are not drawn</text>"), 1);
  EXPECT_EQ(count(svg, ">colours repeat after 8 stages</text>"), 1);
}

TEST(PlanPicture, DrawsPartOfANodeAsASeparateKind) {
  const std::string svg = picture_of(mesh::Layout({}, 76), 8);
  EXPECT_EQ(count(svg, "<g class=\"node\">"), 2);
  EXPECT_EQ(count(svg, ">node 0, x 9 nodes</text>"), 1);
  EXPECT_EQ(count(svg, ">node 9</text>"), 1);
  EXPECT_EQ(count(svg, "<title>rank "), 12);
}

TEST(PlanPicture, NamesTheBytesAndLinksOfEachKindOfTraffic) {
  const mesh::Layout layout({.tp = 2, .ep = 4, .etp = 1}, 16);
  const std::string svg = picture_of(layout, 8,
                                     {{"tp", TrafficClass::tp, {0, 1}, 3 * mib, 0},
                                      {"ep", TrafficClass::ep, {0, 1, 8, 9}, 2 * mib, mib / 2},
                                      {"dp x cp", TrafficClass::dp, {0, 8}, mib, mib}});
  EXPECT_EQ(count(svg, ">tp: 3.00 MiB, inside the fast link</text>"), 1);
  EXPECT_EQ(count(svg, ">ep: 2.00 MiB, 25% of them over the network</text>"), 1);
  EXPECT_EQ(count(svg, ">dp x cp (class dp): 1.00 MiB, over the network</text>"), 1);
  EXPECT_EQ(count(svg, "<g class=\"traffic\">"), 3);
  EXPECT_EQ(count(svg, "<path class=\"frame\""), 3) << "each kind of traffic has a bracket";
  EXPECT_EQ(count(svg, "<title>rank "), 16 + 2 + 4 + 2);
  EXPECT_EQ(count(svg, "<title>rank 9: node 1, "), 2);
  EXPECT_EQ(count(svg, "No rank sends anything."), 0);
}

TEST(PlanPicture, AbbreviatesLargeGroups) {
  std::vector<int> ranks(128);
  for (int i = 0; i < 128; ++i) ranks[i] = 8 * i;
  const mesh::Layout layout({.tp = 8}, 1024);
  const std::string svg = picture_of(layout, 8, {{"dp", TrafficClass::dp, ranks, mib, mib}});
  EXPECT_EQ(count(svg, "<title>rank "), 8 + 12);
  EXPECT_EQ(count(svg, ">and 116 more ranks</text>"), 1);
}

TEST(PlanPicture, EscapesTextAndHasNoScript) {
  const std::string svg =
      picture_of(mesh::Layout({}, 2), 2, {{"<dp>", TrafficClass::dp, {0, 1}, mib, 0}}, "a <b> & \"c\"\x01");
  EXPECT_EQ(count(svg, "a &lt;b&gt; &amp; &quot;c&quot;\xef\xbf\xbd"), 2) << "in the title and in the first line";
  EXPECT_EQ(count(svg, "&lt;dp&gt;"), 1);
  EXPECT_EQ(count(svg, "<script"), 0);
  EXPECT_EQ(count(svg, "http"), 1);  // the only URL is that of SVG's namespace
}

}  // namespace
}  // namespace hexad::tests
