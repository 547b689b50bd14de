#include "tools/plan/prediction_error.h"

#include <fmt/format.h>

#include "framework/base/units.h"

namespace hexad::plan {
namespace {

// tests/plan/prediction_error_test.cpp computes both errors again from the reports. To update an error, run the script
// that writes its report (tools/bench/published_steps.sh or tools/bench/predicted_steps.sh), and replace the report.
// The test then fails and prints the new values. The first script also prints the quantiles, in the line "interval:".
constexpr PredictionError error_of_described{.low = 0.61,
                                             .high = 1.69,
                                             .cases = 52,
                                             .covered = 47,
                                             .what = "published steps of grades A and B",
                                             .sources = "sources",
                                             .source = "docs/reports/published-steps.md"};
constexpr PredictionError error_of_measured{.low = 0.91,
                                            .high = 1.57,
                                            .cases = 42,
                                            .covered = 36,
                                            .what = "measured steps of small recipes on CPU ranks",
                                            .sources = "places (1 rank, 2 ranks, 2 nodes)",
                                            .source = "docs/reports/planning.md"};

std::string_view unit_of(std::string_view duration) { return duration.substr(duration.find(' ') + 1); }

}  // namespace

std::string PredictionError::text(double seconds) const {
  const std::string middle = base::precise_duration(seconds), last = base::precise_duration(most(seconds));
  const std::string first = base::precise_duration(least(seconds));
  const bool same = unit_of(first) == unit_of(middle) && unit_of(last) == unit_of(middle) &&
                    unit_of(middle).find(' ') == std::string_view::npos;
  if (!same) return fmt::format("{} ({} to {})", middle, first, last);
  const auto number = [](const std::string& duration) { return duration.substr(0, duration.find(' ')); };
  return fmt::format("{} ({} to {})", middle, number(first), number(last));
}

std::string PredictionError::explanation() const {
  return fmt::format(
      "about 90% of measured times are expected between the two numbers in brackets, which come from the errors of {} "
      "{} ({}); {} of these are between the numbers that the other {} alone give",
      cases, what, source, covered, sources);
}

const PredictionError& prediction_error(const Cluster& cluster) {
  return cluster.machine ? error_of_described : error_of_measured;
}

}  // namespace hexad::plan
