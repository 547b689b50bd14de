// Number of child processes that run layouts, and behaviour after a run that crashes or hangs.
#include "tools/verify/child_runs.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/train/recipe/complete.h"
#include "tools/verify/outcome_text.h"

namespace hexad::tests {

using namespace train;
using namespace verify;
namespace {

// Makes pipelines crash, and makes ranks of context parallelism wait forever.
class CrashesAndHangs final : public Sabotage {
 public:
  void before_step(TrainingRun& run) const override {
    if (run.recipe.parallel.pp > 1) ::raise(SIGKILL);
    while (run.recipe.parallel.cp > 1) ::pause();
  }
};

class ChildRunsTest : public testing::Test {
 protected:
  // Runs all layouts on one device. Returns the outcomes' errors, and the number of children.
  std::pair<std::vector<std::string>, int> errors(const std::string& device, std::string_view layouts,
                                                  double seconds = 60) {
    Recipe recipe = small_recipe({"device=" + device});
    complete(recipe, 1);
    const Subject subject(recipe, registry, 2, scratch.path());
    Oracles oracles(subject);
    const CrashesAndHangs sabotage;
    ChildRuns runs(
        subject, [&](const Variant& v) -> const Oracle& { return oracles.of(v); }, {.jitter = {}, .seconds = seconds},
        sabotage);
    std::vector<std::string> out;
    for (const Variant& v : parse_layouts(layouts, 2)) {
      const Outcome o = runs.run(v);
      EXPECT_EQ(o.variant, v);
      EXPECT_TRUE(o.agrees() || !o.error.empty()) << explanation(o);
      out.push_back(o.error);
    }
    return {out, runs.children()};
  }
  const layers::Registry registry;
  const Scratch scratch;
};

using Errors = std::vector<std::string>;

TEST_F(ChildRunsTest, OneChildRunsAllLayoutsOfADevice) {
  EXPECT_EQ(errors("emulated", "dp=2,ep=2;tp=2;dp=2,zero=3;ep=2,start=resumed"), std::pair(Errors(4), 1));
}

TEST_F(ChildRunsTest, EachRunOnTheCpuHasAChild) { EXPECT_EQ(errors("cpu", "dp=2,ep=2;tp=2"), std::pair(Errors(2), 2)); }

TEST_F(ChildRunsTest, NewChildHasTheNewOracle) {
  EXPECT_EQ(errors("emulated", "dp=2;dp=2,subject=zipf;tp=2,subject=zipf;tp=2"), std::pair(Errors(4), 2));
}

TEST_F(ChildRunsTest, CrashingLayoutIsNamedAndANewChildContinues) {
  EXPECT_EQ(errors("emulated", "dp=2;pp=2;tp=2;dp=2,ep=2"),
            std::pair(Errors{"", "ended by signal 9 (Killed)", "", ""}, 2));
}

TEST_F(ChildRunsTest, HangIsEndedAndANewChildContinues) {
  EXPECT_EQ(errors("emulated", "cp=2;dp=2", 5), std::pair(Errors{"no result after 5 s", ""}, 2));
}

}  // namespace
}  // namespace hexad::tests
