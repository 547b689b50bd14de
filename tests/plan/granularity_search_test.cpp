#include "tools/plan/granularity_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <vector>

namespace hexad::plan {
namespace {

/// Returns seconds whose best n rises with `batch`: overlap improves with n, and the cost of the overlap grows with n.
double model_seconds(int64_t batch, int64_t n) {
  return 1e-3 * static_cast<double>(batch) / static_cast<double>(n) + 0.35 * static_cast<double>(n);
}

int64_t best_of_all(int64_t batch, int64_t most) {
  int64_t best = 1;
  for (int64_t n = 2; n <= most; ++n)
    if (model_seconds(batch, n) < model_seconds(batch, best)) best = n;
  return best;
}

TEST(SearchUnimodal, FindsTheMinimumAtAnyPosition) {
  for (int64_t high = 1; high <= 24; ++high)
    for (int64_t least = 1; least <= high; ++least) {
      std::set<int64_t> asked;
      const Trial found = search_unimodal(1, high, [&](int64_t n) {
        asked.insert(n);
        return std::abs(static_cast<double>(n) - (static_cast<double>(least) + 0.1));
      });
      EXPECT_TRUE(found.settled);
      EXPECT_EQ(found.n, least) << "with the range 1 to " << high;
      EXPECT_LE(asked.size(), 2 * std::log2(high) + 3) << "with the range 1 to " << high;
    }
}

TEST(SearchUnimodal, IsNotSettledIfTimesAreUnknown) {
  const Trial trial = search_unimodal(1, 8, [](int64_t) -> std::optional<double> { return {}; });
  EXPECT_FALSE(trial.settled);
  EXPECT_TRUE(search_unimodal(5, 5, [](int64_t) -> std::optional<double> { return {}; }).settled);
}

TEST(GranularitySearch, FindsTheBestWithFewMeasurements) {
  GranularitySearch search(1, 8);
  std::mt19937 random(3);
  std::uniform_int_distribution<int64_t> batches(16, 32768);
  int measured = 0;
  for (int i = 0; i < 500; ++i) {
    const int64_t batch = batches(random);
    const int64_t n = search.best(batch, [&](int64_t b, int64_t m) {
      ++measured;
      return model_seconds(b, m);
    });
    EXPECT_EQ(n, best_of_all(batch, 8)) << "B = " << batch;
  }
  EXPECT_LT(measured, 500 * 8 / 20);
}

TEST(GranularitySearch, BatchInAKnownRangeIsNotMeasured) {
  GranularitySearch search(1, 8);
  const auto measure = [](int64_t b, int64_t n) { return model_seconds(b, n); };
  const int64_t n = search.best(3000, measure);
  ASSERT_EQ(search.best(4000, measure), n);
  EXPECT_EQ(search.state().ranges.at(n), (GranularitySearch::Range{3000, 4000}));
  const Trial between = search.propose(3500);
  EXPECT_TRUE(between.settled);
  EXPECT_EQ(between.n, n);
}

TEST(GranularitySearch, WidensTheRangeOfTheFoundN) {
  // Line 22 of MPMoE's printed Algorithm 1 widens a range with bounds that lines 8 and 14 took from a neighbouring
  // range. A batch of 3000 would be in the range of another n with these bounds.
  GranularitySearch search(1, 8);
  const auto measure = [](int64_t b, int64_t n) { return model_seconds(b, n); };
  for (const int64_t batch : {1000, 20000, 3000, 3100}) search.best(batch, measure);
  EXPECT_EQ(search.state().ranges.at(best_of_all(3000, 8)), (GranularitySearch::Range{3000, 3100}));
  for (const auto& [n, range] : search.state().ranges)
    for (const int64_t batch : {1000, 20000, 3000, 3100})
      EXPECT_EQ(range.smallest <= batch && batch <= range.largest, best_of_all(batch, 8) == n) << n << ", " << batch;
}

TEST(GranularitySearch, StaysWithinItsBounds) {
  GranularitySearch search(1, 8);
  const auto measure = [](int64_t b, int64_t n) { return model_seconds(b, n); };
  ASSERT_EQ(search.best(1000000, measure), 8);
  ASSERT_EQ(search.best(64, measure), 1);
  EXPECT_TRUE(search.propose(2000000).settled);
  EXPECT_TRUE(search.propose(7).settled);
}

TEST(GranularitySearch, ProposesAtMostOneMicroBatchPerToken) {
  GranularitySearch search(1, 8);
  EXPECT_LE(search.best(3,
                        [](int64_t, int64_t n) {
                          EXPECT_LE(n, 3);
                          return 1.0 / static_cast<double>(n);
                        }),
            3);
}

TEST(GranularitySearch, StepByStepGivesTheSameResult) {
  GranularitySearch at_once(1, 8), by_steps(1, 8);
  for (const int64_t batch : {900, 12000, 5000, 5100}) {
    const int64_t n = at_once.best(batch, model_seconds);
    Trial trial = by_steps.propose(batch);
    for (; !trial.settled; trial = by_steps.propose(batch))
      by_steps.record(batch, trial.n, model_seconds(batch, trial.n));
    EXPECT_EQ(trial.n, n);
  }
  EXPECT_EQ(at_once.state(), by_steps.state());
}

TEST(GranularitySearch, ContinuesFromASavedState) {
  GranularitySearch search(1, 8);
  search.best(5000, model_seconds);
  GranularitySearch again(1, 8, search.state());
  EXPECT_TRUE(again.propose(5000).settled);
  EXPECT_EQ(again.best(12000, model_seconds), search.best(12000, model_seconds));
  EXPECT_EQ(again.state(), search.state());
}

TEST(SampleSummary, IgnoresOneSlowSample) {
  const SampleSummary s = summary_of({2, 9, 2.5});
  EXPECT_DOUBLE_EQ(s.median, 2.5);
  EXPECT_DOUBLE_EQ(s.deviation, 0.5);
  EXPECT_DOUBLE_EQ(summary_of({7}).deviation, 0);
}

TEST(SampleSummary, DifferencesWithinTheDeviationDoNotCount) {
  EXPECT_TRUE(indistinct({.median = 1.0, .deviation = 0.1}, {.median = 1.05, .deviation = 0}));
  EXPECT_FALSE(indistinct({.median = 1.0, .deviation = 0.1}, {.median = 1.2, .deviation = 0.1}));
  EXPECT_TRUE(indistinct({.median = 1.0}, {.median = 1.0}));
}

// A comparison of minima over unequal numbers of samples would choose n = 4 only because of the third sample of n = 4.
TEST(GranularitySearch, ComparesMediansOfTheSameNumberOfSamples) {
  GranularitySearch search({2, 4}, 3);
  const auto record = [&](int64_t n, const std::vector<double>& seconds) {
    for (const double s : seconds) search.record(100, n, s);
  };
  record(2, {5, 5, 5});
  EXPECT_EQ(search.propose(100).n, 4);
  record(4, {9, 9});
  EXPECT_FALSE(search.measured(100, 4)) << "4 micro-batches have only two of three samples";
  EXPECT_FALSE(search.propose(100).settled);
  record(4, {1, 1, 1});
  EXPECT_DOUBLE_EQ(search.measured(100, 4)->median, 9) << "only the first three samples are used";
  const Trial found = search.propose(100);
  EXPECT_TRUE(found.settled);
  EXPECT_EQ(found.n, 2);
}

TEST(GranularitySearch, SmallestOfIndistinctNumbersWins) {
  GranularitySearch close({2, 4}, 3), apart({2, 4}, 3);
  for (const double s : {5.05, 5.0, 5.1}) close.record(100, 2, s);
  for (const double s : {5.0, 4.9, 5.1}) close.record(100, 4, s);
  EXPECT_EQ(close.propose(100).n, 2) << "5.05 and 5.0 are indistinguishable with a deviation of 0.1";
  for (const double s : {6.0, 5.9, 6.1}) apart.record(100, 2, s);
  for (const double s : {5.0, 4.9, 5.1}) apart.record(100, 4, s);
  EXPECT_EQ(apart.propose(100).n, 4);
}

TEST(GranularitySearch, EndsWithoutNumbersThatLackSamples) {
  GranularitySearch search({2, 4, 8}, 2);
  search.record(100, 4, 3);
  search.record(100, 4, 3);
  search.record(100, 8, 1);
  EXPECT_EQ(search.conclude(100, 8), 4) << "8 micro-batches have only one of two samples";
  GranularitySearch none({2, 4, 8}, 2);
  none.record(100, 8, 1);
  EXPECT_EQ(none.conclude(100, 4), 4) << "no number of micro-batches has all samples";
}

// The numbers are divisors of 20, like the numbers of groups into which EPS-MoE divides 20 experts.
TEST(GranularitySearch, ProposesOnlyItsNumbers) {
  const std::vector<int64_t> divisors{2, 4, 5, 10, 20};
  for (const int64_t least : divisors) {
    GranularitySearch search(divisors, 1);
    const int64_t best = search.best(1000, [&](int64_t, int64_t n) {
      EXPECT_TRUE(std::ranges::find(divisors, n) != divisors.end()) << n;
      return std::abs(static_cast<double>(n - least));
    });
    EXPECT_EQ(best, least);
  }
}

TEST(GranularitySearch, UsesMeasurementsOutsideOfItsProposals) {
  const auto seconds = [](int64_t, int64_t n) { return n == 7 ? 0.5 : std::abs(static_cast<double>(n) - 3) + 1; };
  GranularitySearch alone(2, 16), knowing(2, 16);
  EXPECT_EQ(alone.best(100, seconds), 3)
      << "the search assumes a single minimum, so it does not propose 7 micro-batches";
  knowing.record(100, 7, seconds(100, 7));
  EXPECT_EQ(knowing.best(100, seconds), 7);
}

TEST(GranularitySearch, EndsWithTheFastestSoFar) {
  GranularitySearch search(2, 16);
  const Trial first = search.propose(1000);
  search.record(1000, first.n, 2);
  const Trial second = search.propose(1000);
  ASSERT_FALSE(second.settled);
  search.record(1000, second.n, 1);
  EXPECT_EQ(search.conclude(1000, 2), second.n);
  EXPECT_TRUE(search.propose(1000).settled);
  EXPECT_LE(search.conclude(10, 16), second.n)
      << "an unmeasured batch has at most as many micro-batches as a larger batch";
}

}  // namespace
}  // namespace hexad::plan
