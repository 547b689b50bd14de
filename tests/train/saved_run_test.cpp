#include "tools/train/saved_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/training/scratch.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace base;
using namespace train;
namespace {

// A checkpoint without tensors, of a run that stands so.
io::Checkpoint checkpoint_of(const Scratch& folder, const io::RunState& run) {
  io::Manifest manifest;
  manifest.run = run;
  std::ofstream(folder / "manifest.json") << io::manifest_to_json(manifest);
  return io::Checkpoint::open(folder / "", io::Check::quick);
}

Progress some_progress() {
  return {.step = 7, .skipped = 2, .tokens = 448, .next_sequence = 28, .fingerprints = {{1, UINT64_MAX}, {3, 4}}};
}

TEST(SavedRun, ComesBackAsItWas) {
  const Scratch folder;
  Recipe recipe = small_recipe({"data.shuffle=sequences"});
  Progress progress = some_progress();
  progress.schedule = "S1", progress.schedule_choice = "seen 3";
  const io::Checkpoint checkpoint = checkpoint_of(folder, saved_run(progress, recipe, 1));
  const Progress back = saved_progress(checkpoint);
  EXPECT_EQ(back.step, 7);
  EXPECT_EQ(back.skipped, 2);
  EXPECT_EQ(back.tokens, 448);
  EXPECT_EQ(back.next_sequence, 28);
  EXPECT_EQ(back.fingerprints, progress.fingerprints);
  EXPECT_EQ(back.schedule, "S1");
  EXPECT_EQ(back.schedule_choice, "seen 3");
  EXPECT_EQ(saved_order(checkpoint), "sequences");
  EXPECT_EQ(saved_layout(checkpoint), describe(recipe.parallel, 1));
}

TEST(SavedRun, OfAnOlderProgramHasNoScheduleAndShufflesDocuments) {
  const Scratch folder;
  io::RunState run = saved_run(some_progress(), small_recipe(), 1);
  run.random_state = R"({"skipped": 2})";
  run.data_position = R"({"next_sequence": 28, "fingerprints": [[1, 2]]})";
  const io::Checkpoint checkpoint = checkpoint_of(folder, run);
  EXPECT_EQ(saved_progress(checkpoint).schedule, "");
  EXPECT_EQ(saved_progress(checkpoint).schedule_choice, "");
  EXPECT_EQ(saved_order(checkpoint), "documents");
}

// A manifest may be whole and yet hold something else than this program wrote.
struct Wrong {
  std::string io::RunState::*member;
  const char *text, *message;
};
class WrongRun : public testing::TestWithParam<Wrong> {};
INSTANTIATE_TEST_SUITE_P(
    SavedRun, WrongRun,
    testing::Values(
        Wrong{&io::RunState::random_state, "null", "random_state: the document is null, expected an object"},
        Wrong{&io::RunState::random_state, "{}", "expected one with the member 'skipped'"},
        Wrong{&io::RunState::random_state, R"({"skipped": -1})", "random_state: skipped is -1, expected an integer"},
        Wrong{&io::RunState::random_state, R"({"skipped": 0, "schedule": 1})", "schedule is 1, expected a string"},
        Wrong{&io::RunState::data_position, "null", "data_position: the document is null, expected an object"},
        Wrong{&io::RunState::data_position, "{}", "expected one with the member 'next_sequence'"},
        Wrong{&io::RunState::data_position, R"({"next_sequence": 1})", "expected one with the member 'fingerprints'"},
        Wrong{&io::RunState::data_position, R"({"next_sequence": 1, "fingerprints": [[1]]})",
              "fingerprints[0] is an array of 1, expected the two halves of a digest"},
        Wrong{&io::RunState::data_position, R"({"next_sequence": 1, "fingerprints": [], "shuffle": []})",
              "shuffle is an array of 0, expected a string"},
        Wrong{&io::RunState::layout, R"({"dp": 2})", "layout: the document is an object, expected a string"}));

TEST_P(WrongRun, IsRefusedWithThePlaceAndTheValue) {
  const Scratch folder;
  io::RunState run = saved_run(some_progress(), small_recipe(), 1);
  run.*GetParam().member = GetParam().text;
  const io::Checkpoint checkpoint = checkpoint_of(folder, run);
  try {
    saved_progress(checkpoint);
    saved_order(checkpoint);
    saved_layout(checkpoint);
    FAIL() << "expected: " << GetParam().message;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::data);
    EXPECT_NE(std::string(e.what()).find("manifest.json: "), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find(GetParam().message), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace hexad::tests
