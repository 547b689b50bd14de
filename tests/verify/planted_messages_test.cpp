// Bugs inside communication, planted one by one. Ranks exchange messages like processes, over an adversarial network.
// verify finds each bug for each of three seeds of the network.
#include <gtest/gtest.h>

#include "tests/comm/hasty_message_plan.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tests/verify/sabotage.h"
#include "tools/train/recipe/complete.h"
#include "tools/verify/outcome_text.h"

namespace hexad::tests {

using namespace train;
using namespace verify;
namespace {

using Kind = comm::Operation::Kind;

constexpr uint64_t seeds = 3;

class InsideCommunication final : public Sabotage {
 public:
  explicit InsideCommunication(comm::MakeMessagePlan make_message_plan) : plan_(make_message_plan) {}
  explicit InsideCommunication(Wrong wrong) : wrong_(std::move(wrong)) {}
  std::unique_ptr<comm::ProcessGroup> groups(const comm::ProcessGroup& world, const MeshSizes&) const override {
    return wrong_ ? wrong_group(world, wrong_) : nullptr;
  }
  comm::MakeMessagePlan plan() const override { return plan_; }

 private:
  Wrong wrong_;
  comm::MakeMessagePlan plan_ = comm::make_message_plan;
};

struct Bug {
  std::string name;
  std::vector<std::string> overrides;  // overrides for the recipe that shows the bug
  std::string layout;                  // a layout of four ranks
  InsideCommunication sabotage;
};
void PrintTo(const Bug& b, std::ostream* out) { *out << b.name; }

std::vector<Bug> bugs() {
  return {
      {"ReduceScatterReusesSlotsBeforeTheyAreSummed",
       {"model.vocab=4099"},  // a bucket of several rounds
       "dp=4,zero=2",
       InsideCommunication(comm::hasty_plan<Kind::reduce_scatter, true>)},
      {"AllReduceGathersBeforeItHasSummed", {}, "dp=4", InsideCommunication(comm::hasty_plan<Kind::all_reduce, false>)},
      {"RingReadsBlocksBeforeTheyArrive", {}, "dp=2,cp=2", InsideCommunication(claim_done(Kind::receive, "cp"))},
      {"RingOverwritesBlocksThatAreStillBeingSent", {}, "cp=4", InsideCommunication(claim_done(Kind::send, "cp"))},
      {"TiedStagesUseGradientsBeforeTheyAreSummed",
       {"model.tied_embedding=true"},
       "pp=2,dp=2",
       InsideCommunication(claim_done(Kind::all_reduce, "dp x cp x pp"))},
  };
}

class PlantedMessages : public testing::TestWithParam<Bug> {};

TEST_P(PlantedMessages, AreFoundForThreeSeeds) {
  const Bug& bug = GetParam();
  const Scratch scratch;
  Recipe recipe = small_recipe(bug.overrides);
  complete(recipe, 1);
  const layers::Registry registry;
  const Subject subject(recipe, registry, 2, scratch.path());
  const Oracle oracle = compute_oracle(subject);
  const Variant layout = parse_layouts(bug.layout + ",transport=engine", 4)[0];
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const ThreadRuns how{.jitter = seed, .seconds = 60};
    const Outcome right = run_in_threads(subject, oracle, layout, how);
    EXPECT_TRUE(right.agrees()) << explanation(right);
    const Outcome wrong = run_in_threads(subject, oracle, layout, how, bug.sabotage);
    EXPECT_FALSE(wrong.comparison.mismatches.empty()) << explanation(wrong);
  }
}

INSTANTIATE_TEST_SUITE_P(, PlantedMessages, testing::ValuesIn(bugs()), [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace hexad::tests
