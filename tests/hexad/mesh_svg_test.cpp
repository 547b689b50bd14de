#include "tools/hexad/mesh_views.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/svg.h"

namespace hexad::app {
namespace {

using tests::count, tests::flaw;

// Returns the text from `begin` up to the first `end` after it; empty if there is no `begin`.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin);
  return from == std::string::npos ? "" : text.substr(from, text.find(end, from) - from);
}

const mesh::Sizes everything{.pp = 2, .cp = 2, .tp = 2, .ep = 4, .etp = 1};

TEST(MeshSvg, DrawsEveryRankOnceInEachView) {
  const mesh::Layout layout(everything, 16);
  const std::string svg = mesh_svg(layout);
  EXPECT_EQ(flaw(svg), "");
  for (int rank = 0; rank < layout.world(); ++rank) {
    EXPECT_EQ(count(svg, base::cat("<title>rank ", rank, ": dp ")), 1);
    EXPECT_EQ(count(svg, base::cat("<title>rank ", rank, ": edp ")), 1);
    EXPECT_EQ(count(svg, base::cat(">", rank, "</text></g>")), 2);
  }
  EXPECT_EQ(count(svg, "pipeline stage"), 2);
}

TEST(MeshSvg, ColoursARankByItsMicroBatches) {
  const mesh::Layout layout(everything, 16);
  const std::string svg = mesh_svg(layout);
  for (int rank = 0; rank < layout.world(); ++rank) {
    const std::string colour = base::cat("<g class=\"rank c", layout.coordinate(base::Axis::dp, rank), "\">");
    EXPECT_EQ(count(svg, base::cat(colour, "<title>rank ", rank, ":")), 2);
  }
}

TEST(MeshSvg, PutsEachCellOfAViewInItsOwnPlace) {
  std::string svg = mesh_svg(mesh::Layout(everything, 16));
  std::set<std::string> places;
  int cells = 0;
  for (std::string cell; !(cell = between(svg, "<g class=\"rank", "</g>")).empty(); ++cells) {
    places.insert(between(cell, "<rect x=", " width"));
    svg.erase(svg.find(cell), cell.size());
  }
  EXPECT_EQ(cells, 32);
  EXPECT_EQ(places.size(), 32u);
}

TEST(MeshSvg, FramesEveryGroupOfTensorNeighbours) {
  // There are 8 tp groups in the dense view, and 16 etp groups of one rank in the experts' view.
  EXPECT_EQ(count(mesh_svg(mesh::Layout(everything, 16)), "class=\"frame\""), 8 + 16);
}

TEST(MeshSvg, DrawsASingleRank) {
  const std::string svg = mesh_svg(mesh::Layout({}, 1));
  EXPECT_EQ(svg.find("<svg xmlns=\"http://www.w3.org/2000/svg\""), 0u);
  EXPECT_EQ(count(svg, "<title>rank 0:"), 2);
  EXPECT_EQ(count(svg, "pipeline stage"), 0);
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
}

TEST(MeshSvg, LoadsNoOtherFile) {
  const std::string svg = mesh_svg(mesh::Layout(everything, 16));
  EXPECT_EQ(count(svg, "http"), 1);  // the only URL is the name of the format
  EXPECT_EQ(count(svg, "url("), 0);
  EXPECT_EQ(count(svg, "prefers-color-scheme: dark"), 1);
}

}  // namespace
}  // namespace hexad::app
