// Tests that train.deterministic reaches the kernels. This program has its own CPU table: the library's table with
// attention kernels that count their calls. The linker then omits the library's table.
#include <gtest/gtest.h>

#include <atomic>

#include "framework/kernels/cpu/blockwise_attention.h"
#include "framework/kernels/entries.h"
#include "tests/training/training.h"

namespace hexad::kernels {

using namespace base;
namespace {

std::atomic<int> with_choice, without;

void note(const AttentionShape& shape) { ++(shape.deterministic ? with_choice : without); }

void noted_forward(Stream& s, const Tensor& out, const Tensor& log_sum_exp, const Tensor& q, const Tensor& k,
                   const Tensor& v, const Tensor& first, const Tensor& last, const AttentionShape& shape) {
  note(shape);
  cpu::attention_forward(s, out, log_sum_exp, q, k, v, first, last, shape);
}

void noted_backward(Stream& s, const AttentionGradients& gradients, const Tensor& dout, const AttentionSaved& saved,
                    const AttentionShape& shape) {
  note(shape);
  cpu::attention_backward(s, gradients, dout, saved, shape);
}

}  // namespace

const KernelTable cpu_table = [] {
  KernelTable table = table_of([]<class Family>() { return Family::of_cpu; });
  table.attention.forward = noted_forward;
  table.attention.backward = noted_backward;
  return table;
}();

}  // namespace hexad::kernels

namespace hexad::tests {

using namespace base;
using namespace kernels;
using namespace tensor;
using namespace verify;
namespace {

struct Asked {
  int with_choice, without;
};

Asked asked_in_a_step(bool deterministic, int ranks, const std::vector<std::string>& overrides) {
  kernels::with_choice = kernels::without = 0;
  on_ranks(ranks, [&](const comm::ProcessGroup& world) {
    std::vector<std::string> all{cat("train.deterministic=", deterministic ? "true" : "false")};
    all.insert(all.end(), overrides.begin(), overrides.end());
    TrainingRun run(small_recipe(all), world);
    run.step(documents_of(run.recipe));
  });
  return {kernels::with_choice, kernels::without};
}

TEST(Deterministic, RecipesSettingReachesEveryAttentionCall) {
  for (const auto& [ranks, overrides] :
       std::vector<std::pair<int, std::vector<std::string>>>{{1, {}},
                                                             {2, {"parallel.cp=2", "parallel.cp_kind=ring"}},
                                                             {2, {"parallel.cp=2", "parallel.cp_kind=all_gather"}},
                                                             {2, {"parallel.cp=2", "parallel.cp_kind=ulysses"}}}) {
    SCOPED_TRACE(overrides.empty() ? "one rank" : overrides.back());
    const Asked yes = asked_in_a_step(true, ranks, overrides), no = asked_in_a_step(false, ranks, overrides);
    EXPECT_GE(yes.with_choice, 2 * 4 * 2);  // 2 layers x 4 micro-batches x (forward and backward)
    EXPECT_EQ(yes.without, 0);
    EXPECT_EQ(no.with_choice, 0);
    EXPECT_EQ(no.without, yes.with_choice);
  }
}

TEST(Deterministic, SettingChangesNoBitOnTheCpu) {
  std::vector<Trajectory> all;
  for (const char* wish : {"true", "true", "false", "false"}) {
    const Recipe recipe = small_recipe({cat("train.deterministic=", wish), "train.threads=2"});
    all.push_back(one_rank_trajectory(recipe, documents_of(recipe), 3));
  }
  for (size_t i = 1; i < all.size(); ++i) expect_bitwise(all[0], all[i]);
}

}  // namespace
}  // namespace hexad::tests
