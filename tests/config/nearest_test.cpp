#include "framework/config/nearest.h"

#include <gtest/gtest.h>

#include "framework/config/typed_recipe.h"

namespace hexad::config {
namespace {

struct Parallel {
  int64_t tp = 1, pp = 1;

  template <class V>
  void fields(V& v) {
    v("tp", tp, "", at_least(1)), v("pp", pp, "", at_least(1));
  }
};

struct Small {
  int64_t heads = 6, batch = 8;
  int64_t shards = 1, seed = 0;
  double share = 0;
  Parallel parallel;

  template <class V>
  void fields(V& v) {
    v("heads", heads, "", at_least(1)), v("batch", batch, "", at_least(1)), v("parallel", parallel, "");
    v("shards", shards, ""), v("seed", seed, ""), v("share", share, "");
  }
};

constexpr int64_t world = 12;

Problems checked(const Document& document) {
  Problems problems;
  const Small s = read<Small>(document, problems);
  if (problems.good({"heads", "parallel.tp"}) && s.heads % s.parallel.tp != 0)
    problems.add("heads", base::cat("must be divisible by parallel.tp (", s.parallel.tp, "); nearest: 1000"));
  const int64_t fixed = s.parallel.tp * s.parallel.pp;
  if (problems.good({"parallel"}) && world % fixed != 0)
    problems.add("parallel", base::cat("has tp ", s.parallel.tp, " x pp ", s.parallel.pp, " = ", fixed,
                                       " ranks, which must divide ", world, "; nearest: 1000"));
  const int64_t dp = fixed > 0 ? world / fixed : 0;
  if (problems.good({"parallel", "batch"}) && dp > 0 && s.batch % dp != 0)
    problems.add("batch", base::cat("must be divisible by dp (", dp, ")"));
  if (s.shards > s.batch) problems.add("shards", base::cat("must be at most batch (", s.batch, ")"));
  if (s.seed < 0) problems.add_missing("seed", "must be given");
  if (s.share < 0) problems.add("share", "must not be below 0");
  return problems;
}

std::string suggested(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  const Document document = parse(yaml, "r.yaml", overrides);
  Problems problems = checked(document);
  suggest_nearest(document, problems, checked);
  return problems.text();
}

TEST(Nearest, SuggestsValuesForTheKeyOfTheCommandLine) {
  // heads 4 would be legal, but the user set tp. A legal tp divides 6, and leaves a dp that divides the batch.
  EXPECT_EQ(suggested("{heads: 6, batch: 12}", {"parallel.tp=4"}),
            "r.yaml:1: heads (6) must be divisible by parallel.tp (4); nearest: parallel.tp 3, 6");
}

TEST(Nearest, ValuesOfTheFilePrecedeDefaults) {
  EXPECT_EQ(suggested("{batch: 12, parallel: {tp: 4}}"),
            "r.yaml: heads (6 by default) must be divisible by parallel.tp (4); nearest: parallel.tp 3, 6");
}

TEST(Nearest, ValuesBreakNoOtherRule) {
  // tp 5 divides the 30 heads, but not the 12 ranks. tp 3 and tp 6 divide both numbers. tp 3 leaves dp 4, and tp 6
  // leaves dp 2. Both values of dp divide the batch of 8.
  EXPECT_EQ(suggested("{heads: 30, batch: 8}", {"parallel.tp=5"}),
            "command line: parallel.tp=5: parallel has tp 5 x pp 1 = 5 ranks, which must divide 12; nearest: "
            "parallel.tp 3, 6");
}

TEST(Nearest, ReplacesTheSuggestionInTheMessage) {
  // checked() suggests 1000. No value of heads makes parallel legal, but values of parallel.tp do.
  const std::string text = suggested("{heads: 6, batch: 8, parallel: {tp: 8}}");
  EXPECT_NE(text.find("heads (6) must be divisible by parallel.tp (8); nearest: "), std::string::npos) << text;
  EXPECT_EQ(text.find("1000"), std::string::npos) << text;
}

TEST(Nearest, SuggestsNoValueIfNoSingleKeyHelps) {
  EXPECT_EQ(suggested("{heads: 7, batch: 1, parallel: {tp: 7, pp: 5}}"),
            "r.yaml:1: parallel has tp 7 x pp 5 = 35 ranks, which must divide 12");
}

TEST(Nearest, NearestMultiplesOfALargeValueAreFound) {
  EXPECT_EQ(suggested("{heads: 1000, parallel: {tp: 1}, batch: 100000007}"),
            "r.yaml:1: batch (100000007) must be divisible by dp (12); nearest: 99999996, 100000008");
}

TEST(Nearest, TriesDistantValuesDerivedFromNumbersInTheMessage) {
  EXPECT_EQ(suggested("{batch: 12}", {"shards=500"}),
            "command line: shards=500: shards (500) must be at most batch (12); nearest: 12");
  EXPECT_EQ(suggested("{heads: 6, batch: 12}", {"parallel.tp=500"}),
            "command line: parallel.tp=500: parallel has tp 500 x pp 1 = 500 ranks, which must divide 12; nearest: "
            "parallel.tp 6\n"
            "r.yaml:1: heads (6) must be divisible by parallel.tp (500); nearest: parallel.tp 6");
}

TEST(Nearest, NamesTheOtherKeyThatMustChangeToo) {
  // tp 6 would make heads illegal, and tp 8 would make parallel illegal. tp 4, 2 and 1 make only the batch illegal, and
  // tp 4 is the nearest of these values.
  EXPECT_EQ(suggested("{heads: 8, batch: 10}", {"parallel.tp=5"}),
            "command line: parallel.tp=5: parallel has tp 5 x pp 1 = 5 ranks, which must divide 12; nearest: "
            "parallel.tp 4, with another batch\n"
            "r.yaml:1: heads (8) must be divisible by parallel.tp (5); nearest: parallel.tp 4, with another batch");
}

TEST(Nearest, MissingKeysAndRealsGetNoSuggestion) {
  EXPECT_EQ(suggested("{batch: 12, seed: -1}"), "r.yaml:1: seed (-1) must be given");
  EXPECT_EQ(suggested("{batch: 12, share: -1}"), "r.yaml:1: share (-1) must not be below 0");
}

TEST(Nearest, KeysBreakingTheirOwnRuleKeepTheirMessage) {
  EXPECT_EQ(suggested("{heads: 0, batch: 12}"), "r.yaml:1: heads (0) must be at least 1");
}

}  // namespace
}  // namespace hexad::config
