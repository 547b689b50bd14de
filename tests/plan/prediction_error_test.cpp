// Intervals around predictions, and the reports from which they come.
#include "tools/plan/prediction_error.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>

namespace hexad::tests {
namespace {

using namespace plan;

// Returns, as fractions, the percentages that the first group of `pattern` captures in the lines of `report`.
std::vector<double> errors_in(const std::string& report, const std::string& pattern) {
  std::ifstream in(HEXAD_SOURCE_DIR "/" + report);
  EXPECT_TRUE(in) << "cannot read " << report;
  std::vector<double> errors;
  const std::regex row(pattern);
  std::smatch found;
  for (std::string line; std::getline(in, line);)
    if (std::regex_match(line, found, row)) errors.push_back(std::stod(found[1]) / 100);
  return errors;
}

// Returns the quantile at `share` (0 to 1) of `values`, as PredictionError defines it.
double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const double at = share * static_cast<double>(values.size() + 1) - 1;
  const auto below = static_cast<size_t>(at);
  return values[below] + (at - static_cast<double>(below)) * (values[below + 1] - values[below]);
}

void expect_quantiles(const PredictionError& error, const std::vector<double>& ratios) {
  ASSERT_EQ(std::ssize(ratios), error.cases) << error.source;
  EXPECT_NEAR(error.low, quantile(ratios, 0.05), 0.005) << error.source;
  EXPECT_NEAR(error.high, quantile(ratios, 0.95), 0.005) << error.source;
  const auto inside = std::ranges::count_if(ratios, [&](double r) { return error.low <= r && r <= error.high; });
  EXPECT_GE(static_cast<double>(inside), 0.85 * static_cast<double>(ratios.size())) << error.source;
}

Cluster described() {
  Cluster cluster;
  cluster.machine = Machine{};
  return cluster;
}

TEST(PredictionError, DescriptionsHaveTheErrorOfPublishedSteps) {
  const PredictionError& error = prediction_error(described());
  std::vector<double> ratios =
      errors_in(std::string(error.source), R"(    \S+ +\S+ +\d+ +[AB] +[0-9.]+ +[0-9.]+ +([-+][0-9.]+)%( .*)?)");
  for (double& r : ratios)
    r += 1;  // the report compares rates: predicted over measured rate equals measured over predicted time
  expect_quantiles(error, ratios);
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

TEST(PredictionError, MeasuredCurvesHaveTheErrorOfMoePasses) {
  const PredictionError& error = prediction_error(Cluster{});
  std::vector<double> ratios =
      errors_in(std::string(error.source), R"(\S+ .*\| +[0-9.]+ +([-+][0-9]+)% +[0-9.]+ +[-+][0-9]+%)");
  for (double& r : ratios) r = 1 / (1 + r);  // the errors are predicted over measured time, minus one
  expect_quantiles(error, ratios);
}

TEST(PredictionError, WritesTheUnitOnceIfAllNumbersShareIt) {
  const PredictionError error{.low = 0.5, .high = 1.5, .cases = 10, .what = "steps", .source = "report.md"};
  EXPECT_EQ(error.text(0.4), "400 ms (200 to 600)");
  EXPECT_EQ(error.text(0.8), "800 ms (400 ms to 1.20 s)");
  EXPECT_EQ(error.text(0.004), "4.00 ms (2.00 to 6.00)");
  EXPECT_EQ(error.text(4), "4.00 s (2.00 to 6.00)");
  EXPECT_EQ(error.text(180), "3 min 00 s (1 min 30 s to 4 min 30 s)");
  EXPECT_EQ(error.explanation(),
            "the numbers in brackets are percentiles 5 and 95 of measured times, according to the errors of 10 steps "
            "(report.md)");
}

}  // namespace
}  // namespace hexad::tests
