// A job is refused before any allocation if its ranks need more memory than their machines have.
#include "tools/plan/memory_check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/training/training.h"
#include "tools/plan/memory_savings.h"

namespace hexad::tests {

using namespace plan;
namespace {

using Verdict = MemoryFit::Verdict;

// Returns ranks on machines with `ranks_a_machine` ranks and `available` bytes each.
std::vector<RankMemory> on_machines(int64_t ranks, int64_t ranks_a_machine, double available) {
  std::vector<RankMemory> all;
  for (int64_t r = 0; r < ranks; ++r) {
    const int64_t machine = r / ranks_a_machine;
    all.push_back({.host = base::cat("host", machine),
                   .pools = {{machine, "the machine's memory", static_cast<int64_t>(available)}}});
  }
  return all;
}

class MemoryCheck : public testing::Test {
 protected:
  MemoryFit fit(const Recipe& recipe, const std::vector<RankMemory>& ranks) const {
    return memory_fit(recipe, extensions_, std::ssize(ranks), [&](int64_t r) -> const RankMemory& { return ranks[r]; });
  }
  double needed(const Recipe& recipe, int64_t world) const { return estimate_memory(recipe, extensions_, world).total; }

  const train::Extensions extensions_;
};

TEST_F(MemoryCheck, RefusesOnlyBeyondTheErrorOfTheEstimate) {
  const Recipe recipe = small_recipe();
  const double need = needed(recipe, 1);
  EXPECT_EQ(fit(recipe, on_machines(1, 1, need * 0.97)).verdict, Verdict::too_much);
  EXPECT_EQ(fit(recipe, on_machines(1, 1, need * 0.99)).verdict, Verdict::tight);
  EXPECT_EQ(fit(recipe, on_machines(1, 1, need + process_bytes)).verdict, Verdict::tight);
  EXPECT_EQ(fit(recipe, on_machines(1, 1, need * 2 + process_bytes)).verdict, Verdict::fits);
  EXPECT_EQ(fit(recipe, on_machines(1, 1, need * 2 + process_bytes)).text, "");
}

TEST_F(MemoryCheck, CountsKeysAndValuesOfGeneration) {
  const Recipe recipe = small_recipe({"batch.micro=1"});
  const double need = estimate_evaluation(recipe, extensions_, 1).front().total;
  // Bytes of a token: keys and values x 2 layers x 2 heads x 4 numbers per head x 8 bytes.
  constexpr double token = 2 * 2 * 2 * 4 * 8;
  const auto fit_at = [&](double available, int64_t tokens) {
    const auto ranks = on_machines(1, 1, available);
    return memory_fit(
               recipe, extensions_, 1, [&](int64_t r) -> const RankMemory& { return ranks[r]; }, ModelUse::generation,
               tokens)
        .verdict;
  };
  const auto as_many = static_cast<int64_t>(need / token);
  EXPECT_EQ(fit_at(1.7 * need, 0), Verdict::tight);
  EXPECT_EQ(fit_at(1.7 * need, as_many), Verdict::too_much);
  EXPECT_EQ(fit_at(2.3 * need, as_many), Verdict::tight);
}

TEST_F(MemoryCheck, AddsUpTheRanksOfAMachine) {
  const Recipe recipe = small_recipe({"batch.global=16"});
  const double need = needed(recipe, 4);
  EXPECT_EQ(fit(recipe, on_machines(4, 1, need * 1.3)).verdict, Verdict::tight);
  const MemoryFit two = fit(recipe, on_machines(4, 2, need * 1.3));
  EXPECT_EQ(two.verdict, Verdict::too_much);
  EXPECT_NE(two.text.find("2 ranks on host0 are estimated to need "), std::string::npos) << two.text;
  EXPECT_NE(two.text.find("fewer ranks per node"), std::string::npos) << two.text;
}

TEST_F(MemoryCheck, UsesTheLeastMemoryAvailableToAnyRank) {
  const Recipe recipe = small_recipe();
  const double need = needed(recipe, 2);
  auto ranks = on_machines(2, 2, need * 4 + 2 * process_bytes);
  EXPECT_EQ(fit(recipe, ranks).verdict, Verdict::fits);
  ranks[1].pools[0].available = static_cast<int64_t>(need);
  EXPECT_EQ(fit(recipe, ranks).verdict, Verdict::too_much);
}

TEST_F(MemoryCheck, CountsTheLimitOfAControlGroupForItsOwnRanksOnly) {
  const Recipe recipe = small_recipe();
  const double need = needed(recipe, 2);
  auto ranks = on_machines(2, 2, need * 4);  // each rank in its own container
  for (int64_t r = 0; r < 2; ++r)
    ranks[r].pools.push_back({10 + r, "the limit of control group /", static_cast<int64_t>(need * 1.3)});
  EXPECT_EQ(fit(recipe, ranks).verdict, Verdict::tight);
  ranks[1].pools[1].id = 10;  // both ranks are now in one container
  EXPECT_EQ(fit(recipe, ranks).verdict, Verdict::too_much);
}

TEST_F(MemoryCheck, CountsTheMemoryOfAGpuIfTheModelIsOnGpus) {
  Recipe recipe = small_recipe({"distributed.device_collectives=host"});
  recipe.device = device::DeviceKind::cuda;
  const double need = needed(recipe, 2);
  auto ranks = on_machines(2, 2, 1);  // the ranks need no host memory
  for (int64_t r = 0; r < 2; ++r)
    ranks[r].cards = {{r, "the memory of a GPU (H100)", static_cast<int64_t>(need * 1.3)}};
  EXPECT_EQ(fit(recipe, ranks).verdict, Verdict::fits);
  ranks[1].cards[0].id = 0;  // both ranks share a GPU
  const MemoryFit shared = fit(recipe, ranks);
  EXPECT_EQ(shared.verdict, Verdict::too_much);
  EXPECT_NE(shared.text.find("of the memory of a GPU (H100) is available"), std::string::npos) << shared.text;
  EXPECT_NE(shared.text.find("fewer ranks per GPU"), std::string::npos) << shared.text;
}

TEST_F(MemoryCheck, CountsConnectionsOfNcclUnlessRanksShareAGpu) {
  Recipe recipe = small_recipe();
  recipe.device = device::DeviceKind::cuda;
  const double connections = estimate_memory(recipe, extensions_, 2).connections;
  ASSERT_GT(connections, 0);
  auto ranks = on_machines(2, 2, 1);
  for (int64_t r = 0; r < 2; ++r)
    ranks[r].cards = {{r, "the memory of a GPU (H100)", static_cast<int64_t>(0.9 * connections)}};
  const MemoryFit two = fit(recipe, ranks);
  EXPECT_EQ(two.verdict, Verdict::too_much);
  EXPECT_NE(two.text.find(", connections of NCCL "), std::string::npos) << two.text;
  ranks[1].cards[0].id = 0;  // both ranks share a GPU
  EXPECT_EQ(fit(recipe, ranks).verdict, Verdict::fits);
}

TEST_F(MemoryCheck, CountsEachRanksPartOfThePipeline) {
  const Recipe recipe = small_recipe({"parallel.pp=2"});
  const auto stages = estimate_stages(recipe, extensions_, 2);
  ASSERT_EQ(stages.size(), 2u);
  const double sum = stages[0].total + stages[1].total;
  EXPECT_EQ(fit(recipe, on_machines(2, 2, sum * 0.95)).verdict, Verdict::too_much);
  EXPECT_EQ(fit(recipe, on_machines(2, 2, sum * 1.3)).verdict, Verdict::tight);
}

TEST_F(MemoryCheck, NamesBothFiguresHelpfulKeysAndTheOverride) {
  const Recipe recipe = small_recipe();
  const MemoryFit half = fit(recipe, on_machines(1, 1, needed(recipe, 1) * 0.6));
  EXPECT_EQ(half.verdict, Verdict::too_much);
  for (const char* text :
       {"the rank on host0 is estimated to need ", "iB, and ", " of the machine's memory is available", "weights ",
        "activations ", "offload.optimizer: file (", "memory.limit_bytes: none"})
    EXPECT_NE(half.text.find(text), std::string::npos) << text << " is not in: " << half.text;
}

TEST(MemorySavings, IncludeRecomputedNorms) {
  const auto texts = [](const std::vector<std::string>& overrides) {
    std::vector<std::string> all;
    for (const MemorySaving& saving : memory_savings(small_recipe(overrides), 2)) all.push_back(saving.text);
    return all;
  };
  const std::vector<std::string> all = texts({});
  ASSERT_GE(all.size(), 5U);
  EXPECT_EQ(std::vector(all.begin(), all.begin() + 5),
            (std::vector<std::string>{"parallel.zero: 1", "parallel.zero: 2", "parallel.zero: 3", "recompute: norms",
                                      "recompute: attention"}));
  const std::vector<std::string> with_norms = texts({"recompute=norms"});
  EXPECT_EQ(std::ranges::count(with_norms, "recompute: norms"), 0);
  EXPECT_EQ(std::ranges::count(with_norms, "recompute: attention"), 1);
}

TEST(MemorySavings, IncludeZeroIfSeveralRanksShareTheStateOfAWeight) {
  const auto zeros = [](const std::vector<std::string>& overrides, int64_t world) {
    const auto all = memory_savings(small_recipe(overrides), world);
    return std::ranges::count_if(all, [](const MemorySaving& s) { return s.text.starts_with("parallel.zero: "); });
  };
  EXPECT_EQ(zeros({}, 1), 0);
  EXPECT_EQ(zeros({}, 2), 3) << "dp 2";
  EXPECT_EQ(zeros({"parallel.cp=2"}, 2), 3) << "ranks of cp share all weights";
  EXPECT_EQ(zeros({"parallel.cp=2", "parallel.zero=1"}, 2), 2);
  EXPECT_EQ(zeros({"parallel.pp=2"}, 2), 0);
  EXPECT_EQ(zeros({"parallel.tp=2"}, 2), 0) << "ranks of tp divide all weights";
  EXPECT_EQ(zeros({"parallel.tp=2", "parallel.etp=1"}, 2), 3) << "both ranks have whole experts";
}

TEST_F(MemoryCheck, ReportsMachinesWithUnknownMemory) {
  const Recipe recipe = small_recipe();
  const MemoryFit unknown = fit(recipe, {RankMemory{.host = "host0"}});
  EXPECT_EQ(unknown.verdict, Verdict::unknown);
  EXPECT_NE(unknown.text.find("the memory of host0 cannot be read"), std::string::npos) << unknown.text;
}

TEST_F(MemoryCheck, AlwaysFitsWithoutALimit) {
  Recipe recipe = small_recipe({"memory.limit_bytes=none"});
  EXPECT_FALSE(recipe.memory.checks_machine());
  EXPECT_EQ(recipe.memory.limit(), 0);
  recipe.model.hidden = int64_t{1} << 20;
  EXPECT_EQ(memory_fit_on_this_machine(recipe, extensions_, 1).verdict, Verdict::fits);
}

TEST_F(MemoryCheck, CountsOpenMemoryReuseAsNone) {
  const Recipe open = small_recipe({"schedule.moe.memory_reuse=auto"});
  const Recipe kept = small_recipe({"schedule.moe.memory_reuse=none"});
  const double need = needed(kept, 1);
  for (const double share : {0.97, 0.99, 2.0})
    EXPECT_EQ(fit(open, on_machines(1, 1, need * share)).verdict, fit(kept, on_machines(1, 1, need * share)).verdict);
}

}  // namespace
}  // namespace hexad::tests
