// Tolerances between runs and their oracle.
#include "tools/verify/exactness.h"

#include <gtest/gtest.h>

#include "tests/training/training.h"

namespace hexad::tests {

using namespace train;
using namespace verify;
namespace {

Exactness exactness(const std::vector<std::string>& overrides) { return exactness_of(small_recipe(overrides)); }

TEST(Exactness, BoundsTheToleranceOfEachPrecision) {
  const Exactness f64 = exactness({}), f32 = exactness({"train.precision=f32"}),
                  bf16 = exactness({"train.precision=bf16"});
  EXPECT_EQ(f64.why, "f64");
  EXPECT_FALSE(f64.follows_routing());
  EXPECT_LT(f64.tolerance, 1e-9);
  for (const Exactness& e : {f32, bf16}) EXPECT_TRUE(e.follows_routing());
  EXPECT_LT(f32.tolerance, 1e-3);
  EXPECT_LE(bf16.tolerance, 0.75);
}

// Compares runs that round the same rows to fp8 as the oracle. Such a run differs from the oracle only in the last
// digit of a row's f32 scale.
TEST(Exactness, Fp8RowsAreLimitedByTheirScales) {
  for (const std::vector<std::string>& overrides : {std::vector<std::string>{},
                                                    {"parallel.ep=2"},
                                                    {"parallel.tp=2"},
                                                    {"schedule.moe.chunk_by=tokens", "schedule.moe.chunks=2"}}) {
    std::vector<std::string> all{"schedule.moe.wire=fp8"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    const Exactness e = exactness(all);
    EXPECT_EQ(e.why, "scales of fp8 rows");
    EXPECT_FALSE(e.follows_routing());
    EXPECT_LT(e.tolerance, 1e-5);
  }
}

TEST(Exactness, OtherRowsInFp8AreLimitedByTheirCodes) {
  const auto why = [](const std::vector<std::string>& overrides) {
    std::vector<std::string> all{"schedule.moe.wire=fp8"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    const Recipe r = small_recipe(all);
    const Exactness e = exactness_of(r);
    EXPECT_EQ(e.why, "other rows in fp8");
    EXPECT_TRUE(e.follows_routing());
    EXPECT_LE(e.tolerance, 0.75);
    return std::string(rounds_other_rows(r));
  };
  EXPECT_EQ(why({"parallel.ep=2", "schedule.moe.rows=token"}), "rows");
  EXPECT_EQ(why({"parallel.etp=2", "parallel.tp=2", "schedule.moe.esp_exchange=direct"}), "esp_exchange");
  EXPECT_EQ(why({"schedule.moe.memory_reuse=s4"}), "memory_reuse");
}

TEST(Exactness, IgnoresTheFp8WireOfADenseModel) {
  EXPECT_EQ(exactness({"model.moe.experts=0", "model.mlp_hidden=12", "schedule.moe.wire=fp8"}).why, "f64");
}

}  // namespace
}  // namespace hexad::tests
