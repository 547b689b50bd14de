// The smallest layout that still shows a failure.
#include "tools/verify/minimal.h"

#include <gtest/gtest.h>

#include <set>

namespace hexad::verify {
namespace {

std::string smallest(const char* failing, int world, const std::function<bool(const Variant&)>& fails,
                     Ranks ranks = Ranks::may_leave) {
  const Variant v = parse_layouts(failing, world)[0];
  EXPECT_TRUE(fails(v));
  return minimal_failure(v, fails, ranks).text();
}

TEST(MinimalFailure, DropsIrrelevantAxesAndTheirRanks) {
  const auto tensor_parallel = [](const Variant& v) { return v.mesh[Axis::tp] > 1; };
  EXPECT_EQ(smallest("pp=2,tp=4,cp=1,ep=2,etp=1,sp=true,zero=1,recompute=block", 8, tensor_parallel), "tp=2,etp=1");
  EXPECT_EQ(smallest("tp=8,etp=8", 8, tensor_parallel), "tp=2,etp=1");
}

TEST(MinimalFailure, KeepsNecessaryAxesAndOptions) {
  const auto together = [](const Variant& v) {
    return v.mesh[Axis::cp] > 1 && v.mesh[Axis::ep] > 1 && v["cp_kind"] == "ulysses";
  };
  EXPECT_EQ(smallest("pp=2,cp=4,ep=2,cp_kind=ulysses,pipeline=zb_v,worker_lanes=true", 8, together),
            "cp=2,ep=2,cp_kind=ulysses");
  const auto unequal = [](const Variant& v) { return v.mesh[Axis::etp] != v.mesh[Axis::tp]; };
  EXPECT_EQ(smallest("tp=4,etp=2,ep=2", 8, unequal), "tp=2,etp=1");
}

TEST(MinimalFailure, KeepsTheNumberOfRanksIfTheyAreProcesses) {
  const auto tensor_parallel = [](const Variant& v) { return v.mesh[Axis::tp] > 1; };
  EXPECT_EQ(smallest("pp=2,tp=4,sp=true", 8, tensor_parallel, Ranks::fixed), "pp=2,dp=2,tp=2,etp=1");
}

TEST(MinimalFailure, FindsMeshesWithOtherPrimes) {
  const auto odd = [](const Variant& v) { return v.mesh[Axis::ep] % 3 == 0; };
  EXPECT_EQ(smallest("tp=2,cp=3,ep=6,etp=1", 12, odd), "dp=3,ep=3");
}

TEST(MinimalFailure, TriesNothingTwice) {
  std::vector<std::string> tried;
  smallest("pp=2,tp=2,cp=2,ep=2,sp=true,zero=2", 8, [&](const Variant& v) {
    tried.push_back(v.text());
    return v.mesh[Axis::pp] > 1 && v.mesh[Axis::tp] > 1;
  });
  tried.erase(tried.begin());  // the first call checks the initial layout
  EXPECT_EQ(std::set<std::string>(tried.begin(), tried.end()).size(), tried.size());
}

}  // namespace
}  // namespace hexad::verify
