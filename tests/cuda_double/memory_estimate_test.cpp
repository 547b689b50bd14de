// Compares estimates of memory on GPUs with the counts of the CUDA backend's allocator, on the CUDA test double.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/plan/measured_memory.h"
#include "tools/plan/memory_estimate.h"

namespace hexad::tests {
namespace {

using namespace base;
using device::Category;

struct Case {
  std::string name;
  int ranks;
  std::vector<std::string> overrides;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

constexpr double allowed = 0.01;

class MemoryOnCards : public testing::TestWithParam<Case> {};

// NCCL's connections need more memory than the rest of such a small run, so connections and the rest are compared
// separately.
TEST_P(MemoryOnCards, IsWithinOnePercentOfTheEstimate) {
  const auto& [name, ranks, overrides] = GetParam();
  std::vector<std::string> all{"device=cuda", "distributed.device_collectives=nccl", "model.context=32",
                               "batch.micro=2", "batch.global=4"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  const Recipe recipe = small_recipe(measured(all));
  const auto peaks = measured_peaks(recipe, ranks, Peers::prompt);
  const mesh::Layout layout(recipe.parallel.sizes(), ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    SCOPED_TRACE(cat("rank ", rank));
    const device::MemoryStats& counted = peaks[rank];
    const auto estimate = plan::estimate_memory(recipe, {}, layout, rank);
    const auto near = [&](std::string_view what, double predicted, int64_t bytes) {
      fmt::print("{:<12} rank {} {:<12} {:7.3f} / {:7.3f} MB ({:+5.2f}%)\n", name, rank, what, predicted / 1e6,
                 static_cast<double>(bytes) / 1e6, bytes ? 100 * (predicted / static_cast<double>(bytes) - 1) : 0);
      EXPECT_NEAR(predicted, static_cast<double>(bytes), allowed * predicted) << what << "\n" << counted.table();
    };
    near("weights", estimate.weights, counted.peak_in(Category::parameter));
    near("gradients", estimate.gradients, counted.peak_in(Category::gradient));
    near("optimizer", estimate.optimizer, counted.peak_in(Category::optimizer));
    near("activations", estimate.activations, counted.peak_in(Category::activation));
    near("connections", estimate.connections, counted.peak_in(Category::connection));
    near("rest", estimate.total - estimate.connections, counted.peak_total - counted.peak_in(Category::connection));
    EXPECT_EQ(estimate.connections > 0, ranks > 1);
  }
}

INSTANTIATE_TEST_SUITE_P(, MemoryOnCards,
                         testing::Values(Case{"Kept", 1, {}}, Case{"Bf16", 1, {"train.precision=bf16"}},
                                         Case{"Blocks", 1, {"recompute=block"}}, Case{"Experts", 2, {"parallel.ep=2"}},
                                         Case{"Sequences", 2, {"parallel.tp=2", "parallel.sp=true", "model.vocab=152"}},
                                         Case{"Ring", 2, {"parallel.cp=2"}}, Case{"Stages", 2, {"parallel.pp=2"}},
                                         Case{"ZeroOne", 2, {"parallel.zero=1"}},
                                         Case{"ZeroTwo", 2, {"parallel.zero=2"}},
                                         Case{"ZeroThree", 2, {"parallel.zero=3", "parallel.ep=2"}}),
                         [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace hexad::tests
