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

// Returns a saved run whose recipe leaves choices open. The run had chosen `schedule`. The overrides `more` apply when
// the run is opened.
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
  const ChosenSchedule taken = take_chosen_schedule(run);
  EXPECT_EQ(taken.used, chosen);
  EXPECT_EQ(taken.unused, "");
  EXPECT_FALSE(run.recipe.schedule.moe.open());
  EXPECT_EQ(moe::to_string(run.recipe.schedule.moe.settled()), chosen);
}

TEST(ChosenSchedule, IsReplacedByOverrides) {
  const Scratch folder;
  SavedRun run = run_that_chose(folder, chosen, {"schedule.moe.chunks=8"});
  EXPECT_EQ(take_chosen_schedule(run).used, "duplicates drop, overlap sequential, chunk_by tokens, chunks 8");
}

TEST(ChosenSchedule, IsNotUsedWhereItWasNotChosenAndTheReasonIsGiven) {
  const Scratch folder;
  const auto expect_unused = [&](const std::string& schedule, const Overrides& more, const std::string& reason) {
    SavedRun run = run_that_chose(folder, schedule, more);
    const std::string before = config::write(run.recipe);
    const ChosenSchedule taken = take_chosen_schedule(run);
    EXPECT_EQ(taken.used, "");
    EXPECT_EQ(taken.unused, reason);
    EXPECT_EQ(config::write(run.recipe), before);
  };
  const std::string choice = std::string("the run's choice (") + chosen + ") is not used: ";
  expect_unused("", {}, "the run had not chosen a schedule at step 7");
  expect_unused("a schedule of another version", {},
                "the run's choice (a schedule of another version) is not used: this program does not know such a "
                "schedule");
  const auto layouts = [&](const std::string& there, const std::string& here) {
    return choice + "it was measured with " + there + ", and this layout has " + here +
           "; to use it, set the same layout, or its values in schedule.moe";
  };
  expect_unused(chosen, {"parallel.ep=1"},
                layouts("pp 1, tp 1, sp false, cp 1, ep 2, etp 1", "pp 1, tp 1, sp false, cp 1, ep 1, etp 1"));
  expect_unused(chosen, {"parallel.tp=2"},
                layouts("pp 1, tp 1, sp false, cp 1, ep 2, etp 1", "pp 1, tp 2, sp false, cp 1, ep 2, etp 2"));
  expect_unused(chosen, {"schedule.moe.duplicates=pause_before_gate", "schedule.moe.chunk_by=none"}, "");
  expect_unused(chosen, {"schedule.moe.chunk_by=none"},
                choice +
                    "it is illegal in this recipe: schedule.moe.chunks needs schedule.moe.chunk_by or "
                    "schedule.moe.overlap, which divide the work into chunks; set chunk_by or overlap, or "
                    "chunks: 1");
}

}  // namespace
}  // namespace hexad::tests
