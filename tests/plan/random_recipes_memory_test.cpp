// Compares estimates of memory with the allocator's counts, for random recipes and layouts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string_view>

#include "framework/base/error.h"
#include "tests/plan/measured_memory.h"
#include "tools/plan/memory_estimate.h"

namespace hexad::tests {
namespace {

using namespace base;

constexpr uint64_t seed = 28;
constexpr double allowed = 0.02;
constexpr int cases = 24;

struct Drawn {
  int ranks;
  std::vector<std::string> settings;
};

// Draws settings. Many results are illegal.
class Draw {
 public:
  explicit Draw(uint64_t number) : random_(seed * 1000003 + number) {}

  Drawn drawn() {
    Drawn d{.ranks = std::stoi(pick({"1", "2", "2", "4", "4", "4"})), .settings = {}};
    std::vector<std::string>& s = d.settings;
    const auto set = [&](const std::string& key, const std::string& value) { s.push_back(key + "=" + value); };
    int dp = d.ranks;  // data-parallel ranks, which the other axes leave
    bool has_stages = false;
    for (const char* axis : {"pp", "tp", "cp"}) {
      const int size = dp > 1 && pick({"yes", "no"}) == "yes" ? 2 : 1;
      dp /= size;
      has_stages = has_stages || (size > 1 && axis == std::string_view("pp"));
      set(cat("parallel.", axis), std::to_string(size));
    }
    set("parallel.sp", pick({"true", "false"}));
    set("parallel.cp_kind", pick({"ring", "all_gather", "ulysses"}));
    set("parallel.ep", pick({"1", "2", "2", "4"}));
    const std::string zero = pick({"0", "1", "2", "3"});
    set("parallel.zero", zero);
    set("recompute", pick({"none", "none", "norms", "attention", "block"}));
    set("offload.activations", pick({"false", "false", "false", "true"}));
    set("offload.min_bytes", "4096");
    set("offload.optimizer", pick({"none", "none", "none", "file"}));
    set("schedule.pipeline.kind", pick({"gpipe", "1f1b", "interleaved", "zb_h1", "zb_v", "dualpipe_v"}));
    set("schedule.pipeline.overlap", pick({"none", "none", "none", "micro_batches"}));
    set("schedule.moe.memory_reuse", pick({"none", "none", "s1", "s2", "s3", "s4"}));
    set("schedule.moe.chunk_by", pick({"none", "tokens", "experts", "nodes"}));
    set("schedule.moe.chunks", pick({"1", "2", "3"}));
    set("schedule.moe.rows", pick({"slot", "token"}));
    set("schedule.worker_lanes", "false");  // with threads, the peak depends on their timing
    set("optim.name", pick({"adamw", "adamw", "sgd", "muon"}));
    set("train.precision", pick({"f32", "bf16"}));
    set("model.layers", pick({"2", "4", "4"}));
    set("model.hidden", pick({"128", "192"}));
    set("model.context", pick({"32", "64"}));
    set("model.vocab", pick({"151", "152", "512"}));
    set("model.moe.experts", pick({"0", "4", "4", "8"}));
    set("model.moe.shared_experts", pick({"0", "0", "1"}));
    // Under ZeRO-2 and 3, two stages with a tied embedding both hold its gradients. Their memory depends on how late
    // the other stage is. Estimates are for the latest possible stage. In these runs, no stage is made late. The runs
    // of memory_estimate_test.cpp have late stages.
    const std::string tied = pick({"false", "false", "true"});
    set("model.tied_embedding", has_stages && zero >= "2" ? "false" : tied);
    set("model.mlp_hidden", pick({"96", "256"}));
    set("batch.micro", pick({"1", "2", "4"}));
    set("batch.global", pick({"16", "32"}));
    set("distributed.bucket_bytes", pick({"64KiB", "256KiB", "auto"}));
    return d;
  }

 private:
  std::string pick(const std::vector<std::string>& words) { return words[random_() % words.size()]; }
  std::mt19937_64 random_;
};

// Returns the recipe; nothing if the settings are illegal.
std::optional<Recipe> legal(const Drawn& d) {
  try {
    Recipe recipe = small_recipe(measured(d.settings), d.ranks);
    return recipe;
  } catch (const Error& error) {
    return std::nullopt;
  }
}

std::string text_of(const Drawn& d) {
  std::string text = cat(d.ranks, " ranks");
  for (const std::string& s : d.settings) text += " " + s;
  return text;
}

class RandomRecipe : public testing::TestWithParam<int> {};

// Each case takes the first legal settings of its own sequence of draws.
TEST_P(RandomRecipe, NeedsTheEstimatedMemoryWithinTwoPercent) {
  constexpr int draws = 10000;
  for (int i = 0; i < draws; ++i) {
    const Drawn d = Draw(static_cast<uint64_t>(GetParam()) * draws + i).drawn();
    const std::optional<Recipe> recipe = legal(d);
    if (!recipe) continue;
    fmt::print("seed {}, case {}, draw {}: {}\n", seed, GetParam(), i, text_of(d));
    const auto measured = measured_peaks(*recipe, d.ranks, Peers::late);
    const mesh::Layout layout(recipe->parallel.sizes(), d.ranks);
    for (int rank = 0; rank < d.ranks; ++rank) {
      const double counted = static_cast<double>(measured[rank].peak_total);
      const double estimate = plan::estimate_memory(*recipe, {}, layout, rank).total;
      fmt::print("  rank {}  peak {:7.3f} / {:7.3f} MB ({:+5.2f}%)\n", rank, estimate / 1e6, counted / 1e6,
                 100 * (estimate / counted - 1));
      EXPECT_NEAR(estimate / counted, 1, allowed) << "rank " << rank << "\n" << measured[rank].table();
    }
    return;
  }
  FAIL() << "no draw of " << draws << " is legal; expected a legal recipe";
}

INSTANTIATE_TEST_SUITE_P(, RandomRecipe, testing::Range(0, cases), [](const auto& c) { return cat("Case", c.param); });

}  // namespace
}  // namespace hexad::tests
