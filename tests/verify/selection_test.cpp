// Selection of the layouts that are run.
#include "tools/verify/selection.h"

#include <gtest/gtest.h>

#include "tests/training/training.h"

namespace hexad::tests {

using namespace base;
using namespace train;
using namespace verify;
namespace {

TEST(Select, TakesAllANumberOrAList) {
  const auto legal = [](const Variant&) { return std::string(); };
  const Selection all = select("all", 4, legal, 1);
  EXPECT_GE(all.runs.size(), 46u);
  EXPECT_TRUE(all.text.starts_with("46 meshes of 4 ranks: 46 legal\n")) << all.text;
  const Selection some = select("20", 4, legal, 7);
  EXPECT_EQ(some.runs.size(), 20u);
  EXPECT_TRUE(some.text.ends_with("\n20 of these runs, drawn with seed 7")) << some.text;
  for (uint64_t seed = 1; seed <= 20; ++seed)
    EXPECT_EQ(select("1", 4, legal, seed).runs.at(0)["subject"], "own") << "with seed " << seed;
  EXPECT_EQ(select("tp=2;cp=2,ep=2", 4, legal, 1).runs.size(), 2u);
  EXPECT_EQ(select("1000", 4, legal, 1).runs.size(), all.runs.size());
}

TEST(Select, NamesTheReasonWhyLayoutsAreIllegal) {
  const auto few_heads = [](const Variant& v) {
    return std::string(v.mesh[Axis::tp] > 1 ? "model.heads must be divisible by parallel.tp" : "");
  };
  const Selection s = select("all", 2, few_heads, 1);
  EXPECT_TRUE(
      s.text.starts_with("10 meshes of 2 ranks: 7 legal\n"
                         "     3 illegal: model.heads must be divisible by parallel.tp\n"))
      << s.text;
  EXPECT_EQ(message_of(ExitCode::usage, [&] { select("dp=2;tp=2", 2, few_heads, 1); }),
            "--layouts: 'tp=2' is illegal for this recipe: model.heads must be divisible by parallel.tp");
  EXPECT_EQ(message_of(ExitCode::usage, [&] { select("0", 2, few_heads, 1); }),
            "--layouts is 0, expected a whole number of at least 1, all, or a list of layouts");
  const std::string none = message_of(ExitCode::usage, [&] {
    select(
        "all", 2, [](const Variant&) { return std::string("no"); }, 1);
  });
  EXPECT_TRUE(none.starts_with("no layout of 2 ranks is legal for this recipe\n10 meshes of 2 ranks: 0 legal\n"))
      << none;
}

}  // namespace
}  // namespace hexad::tests
