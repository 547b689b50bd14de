// Reuse of the MoE schedule that a training run chose.
#include "tools/train/checkpoint/run_directory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/train/checkpoint/saved_run.h"

namespace hexad::tests {

using namespace train;
namespace {

using Overrides = std::vector<std::string>;

const Overrides open_keys{"parallel.ep=2", "schedule.moe.duplicates=auto", "schedule.moe.chunk_by=auto"};
constexpr const char* chosen = "duplicates drop, overlap sequential, chunk_by tokens, chunks 4";

// Returns a saved run of a recipe with open choices, opened with the further overrides `more`. The run had chosen
// `schedule`.
SavedRun run_that_chose(const Scratch& folder, const std::string& schedule, const Overrides& more = {}) {
  Progress progress{.step = 7, .skipped = 0, .tokens = 448, .next_sequence = 28, .fingerprints = {{1, 2}}};
  progress.schedule = schedule;
  io::Manifest manifest;
  manifest.run = saved_run(progress, small_recipe(open_keys), 2);
  std::ofstream(folder / "manifest.json") << io::manifest_to_json(manifest);
  Overrides all = open_keys;
  all.insert(all.end(), more.begin(), more.end());
  return {small_recipe(all), io::Checkpoint::open(folder.path(), io::Check::quick)};
}

TEST(ChosenSchedule, IsUsedInTheLayoutOfTheRun) {
  const Scratch folder;
  SavedRun run = run_that_chose(folder, chosen);
  EXPECT_EQ(take_chosen_schedule(run), chosen);
  EXPECT_FALSE(run.recipe.schedule.moe.open());
  EXPECT_EQ(moe::to_string(run.recipe.schedule.moe.settled()), chosen);
}

TEST(ChosenSchedule, IsReplacedByOverrides) {
  const Scratch folder;
  SavedRun run = run_that_chose(folder, chosen, {"schedule.moe.chunks=8"});
  EXPECT_EQ(take_chosen_schedule(run), "duplicates drop, overlap sequential, chunk_by tokens, chunks 8");
}

TEST(ChosenSchedule, IsNotUsedWhereItWasNotChosen) {
  const Scratch folder;
  const auto unchanged = [&](const std::string& schedule, const Overrides& more) {
    SavedRun run = run_that_chose(folder, schedule, more);
    const std::string before = config::write(run.recipe);
    EXPECT_EQ(take_chosen_schedule(run), "");
    EXPECT_EQ(config::write(run.recipe), before);
  };
  unchanged("", {});
  unchanged("a schedule of another version", {});
  unchanged(chosen, {"parallel.ep=1"});
  unchanged(chosen, {"parallel.tp=2"});
  unchanged(chosen, {"schedule.moe.duplicates=pause_before_gate", "schedule.moe.chunk_by=none"});
}

}  // namespace
}  // namespace hexad::tests
