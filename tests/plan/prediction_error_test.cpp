// Intervals around predictions, and the reports from which they come.
#include "tools/plan/prediction_error.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>

namespace hexad::tests {
namespace {

using namespace plan;

// Source of a measured step, and its measured seconds divided by its predicted seconds.
struct Known {
  std::string source;
  double ratio;
};

// Returns the steps in the lines of `report` that match `pattern`. `known` makes a step from the matched groups of a
// line.
std::vector<Known> steps_in(const std::string& report, const std::string& pattern,
                            const std::function<Known(const std::smatch&)>& known) {
  std::ifstream in(HEXAD_SOURCE_DIR "/" + report);
  EXPECT_TRUE(in) << "cannot read " << report;
  std::vector<Known> steps;
  const std::regex row(pattern);
  std::smatch found;
  for (std::string line; std::getline(in, line);)
    if (std::regex_match(line, found, row)) steps.push_back(known(found));
  return steps;
}

// Returns the quantile at `share` (0 to 1) of the ratios, as PredictionError defines it.
double quantile(std::vector<Known> steps, double share) {
  std::ranges::sort(steps, {}, &Known::ratio);
  const double at = share * static_cast<double>(steps.size() + 1) - 1;
  const auto below = static_cast<size_t>(at);
  return std::lerp(steps[below].ratio, steps[below + 1].ratio, at - static_cast<double>(below));
}

// Returns the number of steps inside the interval that the steps of all other sources give.
int covered_by_others(const std::vector<Known>& steps) {
  int covered = 0;
  for (const Known& step : steps) {
    std::vector<Known> others = steps;
    std::erase_if(others, [&](const Known& other) { return other.source == step.source; });
    covered += quantile(others, 0.05) <= step.ratio && step.ratio <= quantile(others, 0.95);
  }
  return covered;
}

void expect_quantiles(const PredictionError& error, const std::vector<Known>& steps) {
  ASSERT_EQ(std::ssize(steps), error.cases) << error.source;
  EXPECT_NEAR(error.low, quantile(steps, 0.05), 0.005) << error.source;
  EXPECT_NEAR(error.high, quantile(steps, 0.95), 0.005) << error.source;
  EXPECT_EQ(error.covered, covered_by_others(steps)) << error.source;
  EXPECT_GE(error.covered, 0.85 * error.cases) << "intervals are too narrow: " << error.source;
  EXPECT_LE(error.covered, 0.95 * error.cases) << "intervals are too wide: " << error.source;
}

Cluster described() {
  Cluster cluster;
  cluster.machine = Machine{};
  return cluster;
}

TEST(PredictionError, DescriptionsHaveTheErrorOfPublishedSteps) {
  const PredictionError& error = prediction_error(described());
  // The report has published and predicted rates. Predicted rate / published rate equals measured time / predicted
  // time. The letters at the beginning of a row's name are its source.
  const std::string row = R"(    ([A-Za-z]+)\S* +\S+ +\d+ +[AB] +([0-9.]+) +([0-9.]+) +[-+][0-9.]+%( .*)?)";
  expect_quantiles(error, steps_in(std::string(error.source), row, [](const std::smatch& found) {
                     return Known{found[1], std::stod(found[3]) / std::stod(found[2])};
                   }));
}

TEST(PredictionError, MatchesTheReportOfPublishedSteps) {
  const PredictionError& error = prediction_error(described());
  const std::string printed = fmt::format(
      "    interval: {} rows of grades A and B; measured / predicted seconds: quantile 0.05 is {:.2f}, quantile 0.95 "
      "is "
      "{:.2f}",
      error.cases, error.low, error.high);
  std::ifstream in(HEXAD_SOURCE_DIR "/" + std::string(error.source));
  bool found = false;
  for (std::string line; std::getline(in, line);) found = found || line == printed;
  EXPECT_TRUE(found) << error.source << " lacks the line \"" << printed << '"';
}

TEST(PredictionError, CoverageOfPublishedStepsMatchesTheirReport) {
  const PredictionError& error = prediction_error(described());
  std::ifstream in(HEXAD_SOURCE_DIR "/" + std::string(error.source));
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const std::string printed = fmt::format(
      "    coverage: intervals from the rows of other sources contain {} of {} rows\n", error.covered, error.cases);
  EXPECT_NE(text.find(printed), text.npos) << error.source << " lacks the line \"" << printed << '"';
}

TEST(PredictionError, MeasuredCurvesHaveTheErrorOfWholeSteps) {
  const PredictionError& error = prediction_error(Cluster{});
  // The report has the quotients of predicted and measured seconds. The first part of a case's name is the place where
  // it ran.
  expect_quantiles(error, steps_in(std::string(error.source),
                                   R"(    (\w+)\.\d\d +\d +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +([0-9.]+) .*)",
                                   [](const std::smatch& row) {
                                     return Known{row[1], 1 / std::stod(row[2])};
                                   }));
}

TEST(PredictionError, WritesTheUnitOnceIfAllNumbersShareIt) {
  const PredictionError error{.low = 0.5,
                              .high = 1.5,
                              .cases = 10,
                              .covered = 9,
                              .what = "steps",
                              .sources = "machines",
                              .source = "report.md"};
  EXPECT_EQ(error.text(0.4), "400 ms (200 to 600)");
  EXPECT_EQ(error.text(0.8), "800 ms (400 ms to 1.20 s)");
  EXPECT_EQ(error.text(0.004), "4.00 ms (2.00 to 6.00)");
  EXPECT_EQ(error.text(4), "4.00 s (2.00 to 6.00)");
  EXPECT_EQ(error.text(180), "3 min 00 s (1 min 30 s to 4 min 30 s)");
  EXPECT_EQ(error.explanation(),
            "about 90% of measured times are expected between the two numbers in brackets, which come from the errors "
            "of 10 steps (report.md); 9 of these are between the numbers that the other machines alone give");
}

}  // namespace
}  // namespace hexad::tests
