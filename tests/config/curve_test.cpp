#include "framework/config/curve.h"

#include <gtest/gtest.h>

#include "tests/config/example_recipe.h"

namespace example {

using namespace hexad::config;

namespace {

struct Link {
  Curve efficiency;
  std::optional<Curve> contended;
  Curve delay = 0.5;
  bool operator==(const Link&) const = default;

  template <class V>
  void fields(V& v) {
    v("efficiency", efficiency, "share of the bandwidth, by message size in bytes", positive(), at_most(1));
    v("contended", contended, "share of the bandwidth during copies", positive(), at_most(1));
    v("delay", delay, "seconds", at_least(0));
  }
};

Link read_link(std::string_view text) {
  Problems problems;
  const Link link = read<Link>(parse(text, "r.yaml"), problems);
  problems.throw_if_any();
  return link;
}

std::string refusal_of_link(std::string_view text) {
  return refusal([&] { read_link(text); });
}

using Points = std::vector<Curve::Point>;

TEST(Curve, IsANumberOrPoints) {
  EXPECT_EQ(read_link("efficiency: 0.75\n"), (Link{0.75, std::nullopt, 0.5}));
  EXPECT_EQ(read_link("efficiency: [[8e6, 0.5], [32e6, 0.75]]\ncontended: 0.25\n"),
            (Link{Points{{8e6, 0.5}, {32e6, 0.75}}, Curve(0.25), 0.5}));
  EXPECT_EQ(read_link("efficiency:\n  - [1, 0.5]\n  - [2, 1]\ncontended: none\n").efficiency,
            Curve(Points{{1, 0.5}, {2, 1}}));
}

TEST(Curve, RoundTripsThroughText) {
  for (const Link& link :
       {Link{0.1, std::nullopt, 0}, Link{Points{{1, 0.1}, {1e300, 1}}, Curve(Points{{-1, 1}, {0, 1}}), 2}})
    EXPECT_EQ(read_link(write(link)), link) << write(link);
  EXPECT_EQ(write(Link{Points{{8e6, 0.5}, {3e7, 0.75}}, std::nullopt, 1}),
            "efficiency: [[8000000, 0.5], [30000000, 0.75]]\ncontended: none\ndelay: 1\n");
}

TEST(Curve, LimitsHoldForEveryValue) {
  EXPECT_EQ(refusal_of_link("efficiency: 0\n"), "r.yaml:1: efficiency (0) must be greater than 0");
  EXPECT_EQ(refusal_of_link("efficiency: [[1, 0.5], [2, 1.5]]\n"), "r.yaml:1: efficiency.1.1 (1.5) must be at most 1");
  EXPECT_EQ(refusal_of_link("delay: 1\n"), "r.yaml: efficiency is not set; it must be greater than 0");
}

TEST(Curve, RefusesOtherValuesAndNamesTheirPlace) {
  const auto start = std::string("delay: 1\n");
  EXPECT_EQ(refusal_of_link(start + "efficiency: high\n"), "r.yaml:2: efficiency (high) must be a number");
  EXPECT_EQ(refusal_of_link(start + "efficiency: {a: 1}\n"), "r.yaml:2: efficiency (a section) must be a number");
  const std::string few =
      "r.yaml:2: efficiency (a list) must be a number (a constant) or at least two points, [[x, y], [x, y]]";
  EXPECT_EQ(refusal_of_link(start + "efficiency: []\n"), few);
  EXPECT_EQ(refusal_of_link(start + "efficiency: [[1, 0.5]]\n"), few);
  EXPECT_EQ(refusal_of_link(start + "efficiency: [8, 0.5]\n"),
            "r.yaml:2: efficiency.0 (8) must be a point, [x, y]\nr.yaml:2: efficiency.1 (0.5) must be a point, [x, y]");
  EXPECT_EQ(refusal_of_link(start + "efficiency:\n  - [1, 0.5]\n  - [2, 0.5, 3]\n"),
            "r.yaml:4: efficiency.1 (a list) must be a point, [x, y]");
  EXPECT_EQ(refusal_of_link(start + "efficiency:\n  - [2, 0.5]\n  - [x, 0.5]\n"),
            "r.yaml:4: efficiency.1.0 (x) must be a number");
  EXPECT_EQ(refusal_of_link(start + "efficiency:\n  - [2, 0.5]\n  - [2, 0.6]\n"),
            "r.yaml:4: efficiency.1 (a list) must have a larger x than the previous point");
}

TEST(Curve, IsDocumentedAndCompared) {
  EXPECT_NE(reference<Link>().find("| `efficiency` | number or list of [x, y] | required | > 0, <= 1 |"),
            std::string::npos)
      << reference<Link>();
  EXPECT_NE(reference<Link>().find("| `contended` | number or list of [x, y] or `none` | `none` |"), std::string::npos);
  EXPECT_EQ(differences(Link{0.5, std::nullopt, 0}, Link{Points{{1, 0.5}, {2, 0.5}}, std::nullopt, 0}),
            std::vector<std::string>{"efficiency: 0.5 -> [[1, 0.5], [2, 0.5]]"});
}

}  // namespace
}  // namespace example
