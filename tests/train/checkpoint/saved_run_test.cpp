#include "tools/train/checkpoint/saved_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/train/recipe/recipe_comparison.h"

namespace hexad::tests {

using namespace base;
using namespace train;
namespace {

// Returns a checkpoint without tensors, of a run in state `run`.
io::Checkpoint checkpoint_of(const Scratch& folder, const io::RunState& run) {
  io::Manifest manifest;
  manifest.run = run;
  std::ofstream(folder / "manifest.json") << io::manifest_to_json(manifest);
  return io::Checkpoint::open(folder.path(), io::Check::quick);
}

Progress some_progress() {
  return {.step = 7, .skipped = 2, .tokens = 448, .next_sequence = 28, .fingerprints = {{1, UINT64_MAX}, {3, 4}}};
}

TEST(SavedRun, IsReadBackUnchanged) {
  const Scratch folder;
  Recipe recipe = small_recipe({"data.shuffle=sequences"});
  Progress progress = some_progress();
  progress.schedule = "chunk_by tokens, chunks 4", progress.schedule_choice = "seen 3";
  progress.fused = "cuda fused";
  progress.mixture_start = {.sequence = 16, .drawn = {10, 6}};
  const io::Checkpoint checkpoint = checkpoint_of(folder, saved_run(progress, recipe, 1));
  const Progress back = saved_progress(checkpoint);
  EXPECT_EQ(back.step, 7);
  EXPECT_EQ(back.skipped, 2);
  EXPECT_EQ(back.tokens, 448);
  EXPECT_EQ(back.next_sequence, 28);
  EXPECT_EQ(back.fingerprints, progress.fingerprints);
  EXPECT_EQ(back.schedule, "chunk_by tokens, chunks 4");
  EXPECT_EQ(back.schedule_choice, "seen 3");
  EXPECT_EQ(back.fused, "cuda fused");
  EXPECT_EQ(back.mixture_start, progress.mixture_start);
  EXPECT_EQ(checkpoint.manifest().run.seed, recipe.train.seed);
  EXPECT_EQ(config::write(saved_recipe(checkpoint)), config::write(recipe));
  EXPECT_EQ(saved_shuffle(checkpoint), "sequences");
  EXPECT_EQ(saved_layout(checkpoint), describe(recipe.parallel, 1));
}

// hexad export may read the model of train.init_from from another working directory.
TEST(SavedRun, StartIsSavedAsAnAbsolutePath) {
  const Scratch folder;
  const Recipe recipe = small_recipe({"train.init_from=some/model"});
  const Recipe saved = saved_recipe(checkpoint_of(folder, saved_run(some_progress(), recipe, 1)));
  EXPECT_EQ(saved.train.init_from, (std::filesystem::current_path() / "some/model").string());
  EXPECT_EQ(changes_of_recipe(saved, recipe), std::vector<std::string>());
  EXPECT_EQ(changes_of_recipe(saved, small_recipe({"train.init_from=other"})).size(), 1u);
}

TEST(SavedRun, TranslatesScheduleNamesOfEarlierVersions) {
  const Scratch folder;
  io::RunState run = saved_run(some_progress(), small_recipe(), 1);
  run.random_state =
      R"({"skipped": 2, "schedule": "overlap sequential, cut tokens, parts 4", "schedule_choice": "seen, parts 2"})";
  const Progress progress = saved_progress(checkpoint_of(folder, run));
  EXPECT_EQ(progress.schedule, "overlap sequential, chunk_by tokens, chunks 4");
  EXPECT_EQ(progress.schedule_choice, "seen, chunks 2");
}

TEST(SavedRun, DefaultsToNoScheduleAndShuffledDocuments) {
  const Scratch folder;
  io::RunState run = saved_run(some_progress(), small_recipe(), 1);
  run.random_state = R"({"skipped": 2})";
  run.data_position = R"({"next_sequence": 28, "fingerprints": [[1, 2]]})";
  const io::Checkpoint checkpoint = checkpoint_of(folder, run);
  EXPECT_EQ(saved_progress(checkpoint).schedule, "");
  EXPECT_EQ(saved_progress(checkpoint).schedule_choice, "");
  EXPECT_EQ(saved_progress(checkpoint).fused, "");
  EXPECT_EQ(saved_progress(checkpoint).mixture_start, data::MixtureStart());
  EXPECT_EQ(saved_shuffle(checkpoint), "documents");
}

// Wrong contents of a manifest with a valid digest. This program never writes such contents.
struct Wrong {
  void (*read)(const io::Checkpoint&);
  std::string io::RunState::*member;
  const char *text, *message;
};
void progress(const io::Checkpoint& c) { saved_progress(c); }
void shuffle(const io::Checkpoint& c) { saved_shuffle(c); }
void layout(const io::Checkpoint& c) { saved_layout(c); }
constexpr auto state = &io::RunState::random_state, position = &io::RunState::data_position;

class WrongRun : public testing::TestWithParam<Wrong> {};
INSTANTIATE_TEST_SUITE_P(
    SavedRun, WrongRun,
    testing::Values(
        Wrong{progress, state, "null", "random_state is null, expected an object"},
        Wrong{progress, state, "{}", "random_state is an object, expected an object with the member 'skipped'"},
        Wrong{progress, state, R"({"skipped": -1})", "random_state.skipped is -1, expected an integer of at least 0"},
        Wrong{progress, state, R"({"skipped": 0, "schedule": 1})", "random_state.schedule is 1, expected a string"},
        Wrong{progress, position, "null", "data_position is null, expected an object"},
        Wrong{progress, position, "{}",
              "data_position is an object, expected an object with the member 'next_sequence'"},
        Wrong{progress, position, R"({"next_sequence": 1})",
              "data_position is an object, expected an object with the member 'fingerprints'"},
        Wrong{progress, position, R"({"next_sequence": 1, "fingerprints": [[1]]})",
              "data_position.fingerprints[0] is an array of 1 element, expected an array of 2 integers"},
        Wrong{progress, position,
              R"({"next_sequence": 9, "fingerprints": [[1, 2]], "mixture_start": {"sequence": 8, "drawn": [6, 2]}})",
              "data_position.mixture_start.drawn is an array of 2 elements, expected a count for each fingerprint"},
        Wrong{progress, position,
              R"({"next_sequence": 9, "fingerprints": [[1, 2]], "mixture_start": {"sequence": 10, "drawn": [10]}})",
              "data_position.mixture_start.sequence is 10, expected at most next_sequence"},
        Wrong{shuffle, position, "null", "data_position is null, expected an object"},
        Wrong{shuffle, position, "[]", "data_position is an array of 0 elements, expected an object"},
        Wrong{shuffle, position, R"({"shuffle": []})",
              "data_position.shuffle is an array of 0 elements, expected a string"},
        Wrong{layout, &io::RunState::layout, R"({"dp": 2})", "layout is an object, expected a string"}));

TEST_P(WrongRun, IsRefusedWithThePlaceAndTheValue) {
  const Scratch folder;
  io::RunState run = saved_run(some_progress(), small_recipe(), 1);
  run.*GetParam().member = GetParam().text;
  const io::Checkpoint checkpoint = checkpoint_of(folder, run);
  try {
    GetParam().read(checkpoint);
    FAIL() << "no Error was thrown; expected: " << GetParam().message;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::data);
    EXPECT_EQ(std::string(e.what()), cat(folder.path(), "/manifest.json: ", GetParam().message));
  }
}

}  // namespace
}  // namespace hexad::tests
