#include "framework/telemetry/timeline_svg.h"

#include <gtest/gtest.h>

#include <regex>

#include "tests/support/svg.h"
#include "tests/telemetry/sample_timelines.h"

namespace hexad::telemetry {
namespace {

using tests::count, tests::flaw;

using schedule::Lane;
using schedule::TaskKind;
using schedule::Timeline;

TEST(TimelineSvg, HasAMeasuredRowAboveAPredictedRowForEachLane) {
  const SampleTimelines sample;
  const std::string svg = timeline_svg("MoE layer", {&sample.measured, &sample.predicted});
  EXPECT_EQ(flaw(svg), "");
  EXPECT_EQ(count(svg, "<g class=\"lane\">"), 2);
  EXPECT_EQ(count(svg, ">inter</text>"), 1);
  EXPECT_EQ(count(svg, ">compute</text>"), 2) << "one label names the lane, and the other is in the legend";
  EXPECT_EQ(count(svg, "class=\"track\""), 4);
  EXPECT_EQ(count(svg, "<g class=\"task\">"), 6);
  EXPECT_EQ(count(svg, ">D0</text>"), 2);
  EXPECT_LT(svg.find("<title>measured D0"), svg.find("<title>predicted D0"));
}

TEST(TimelineSvg, RowBetweenRanksOfANodeIsNotCalledInter) {
  SampleTimelines sample;
  for (auto& span : sample.measured.spans) span.task.cost.crosses_nodes = false;
  const std::string svg = timeline_svg("MoE layer", {&sample.measured});
  EXPECT_EQ(count(svg, ">intra (all-to-all)</text>"), 1);
  EXPECT_EQ(count(svg, ">inter</text>"), 0);
}

TEST(TimelineSvg, ShowsTotalsExposedCommunicationAndTheError) {
  const SampleTimelines sample;
  const std::string svg = timeline_svg("MoE layer", {&sample.measured, &sample.predicted});
  EXPECT_NE(svg.find(">measured 8 s, of which 5 s is exposed communication; predicted 7 s, of which 5 s is exposed "
                     "communication; the "
                     "prediction is off by -12.5%</text>"),
            std::string::npos);
  EXPECT_NE(svg.find("<title>measured D0: all_to_all, 2 s from 0 s to 2 s, 1.00 MiB sent, ep of 4</title>"),
            std::string::npos);
  const std::string alone = timeline_svg("MoE layer", {&sample.measured});
  EXPECT_EQ(count(alone, "off by"), 0);
  EXPECT_EQ(count(alone, "predicted"), 0);
}

TEST(TimelineSvg, HatchesOnlyTheExposedPartsOfTasks) {
  const SampleTimelines sample;
  const std::string svg = timeline_svg("", {&sample.measured});
  // D0 is exposed entirely, and C0 is exposed from 5 to 8. The bar of the legend has the classes "bar exposed".
  EXPECT_EQ(count(svg, "class=\"exposed\""), 2);
  std::smatch c0;
  const std::regex task(
      "<title>measured C0.*</title><rect class=\"bar all_to_all\" x=\"([0-9.]+)\" y=\"\\d+\" width=\"([0-9.]+)\" "
      "height=\"\\d+\"/><rect class=\"exposed\" x=\"([0-9.]+)\" y=\"\\d+\" width=\"([0-9.]+)\"");
  ASSERT_TRUE(std::regex_search(svg, c0, task));
  const double pixel = 0.02;  // positions have two decimals
  EXPECT_NEAR(std::stod(c0[4]), std::stod(c0[2]) * 3 / 4, pixel) << "C0 runs from 4 to 8";
  EXPECT_NEAR(std::stod(c0[3]) + std::stod(c0[4]), std::stod(c0[1]) + std::stod(c0[2]), pixel);
}

TEST(TimelineSvg, EscapesNames) {
  Timeline t;
  t.spans = {{{Lane::inter, "a<b>&\"c\"\x01", {}, TaskKind::send}, 0, 1}};
  const std::string svg = timeline_svg("R & <D>", {&t});
  EXPECT_EQ(flaw(svg), "");
  EXPECT_NE(svg.find(">a&lt;b&gt;&amp;&quot;c&quot;\xef\xbf\xbd</text>"), std::string::npos);
  EXPECT_NE(svg.find(">R &amp; &lt;D&gt;</text>"), std::string::npos);
}

TEST(TimelineSvg, EmptyTimelineIsMarked) {
  const Timeline none;
  for (const TimelinePair& pair : {TimelinePair{}, TimelinePair{&none, nullptr}, TimelinePair{&none, &none}}) {
    const std::string svg = timeline_svg("nothing", pair);
    EXPECT_EQ(flaw(svg), "");
    EXPECT_EQ(count(svg, "No task ran."), 1);
    EXPECT_EQ(count(svg, "<g class=\"lane\">"), 0);
    EXPECT_EQ(count(svg, "nan"), 0);
  }
}

TEST(TimelineSvg, TasksWithoutDurationAreDrawn) {
  Timeline t;
  t.spans = {{{Lane::inter, "D", {}, TaskKind::all_to_all}, 0, 0}};
  const std::string svg = timeline_svg("instant", {&t, &t});
  EXPECT_EQ(flaw(svg), "");
  EXPECT_EQ(count(svg, "<g class=\"task\">"), 2);
  EXPECT_EQ(count(svg, "nan") + count(svg, "inf"), 0);
}

TEST(TimelineSvg, AxisHasRoundTicksInASuitableUnit) {
  const auto axis = [](double seconds) {
    Timeline t;
    t.spans = {{{Lane::compute, "E", {}, TaskKind::compute}, 0, seconds}};
    const std::string svg = timeline_svg("", {&t});
    std::string ticks;
    static const std::regex tick("<text class=\"small middle\"[^>]*>([^<]*)</text>");
    for (std::sregex_iterator it(svg.begin(), svg.end(), tick), end; it != end; ++it) ticks += (*it)[1].str() + " ";
    std::smatch unit;
    std::regex_search(svg, unit, std::regex(">time, ([^<]*)</text>"));
    return ticks + unit[1].str();
  };
  EXPECT_EQ(axis(3.5), "0 0.5 1 1.5 2 2.5 3 3.5 s");
  EXPECT_EQ(axis(8), "0 1 2 3 4 5 6 7 8 s");
  EXPECT_EQ(axis(0.0124), "0 2 4 6 8 10 12 ms");
  EXPECT_EQ(axis(240e-6), "0 50 100 150 200 µs");
  EXPECT_EQ(axis(1500), "0 200 400 600 800 1000 1200 1400 s");
}

}  // namespace
}  // namespace hexad::telemetry
