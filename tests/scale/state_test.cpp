#include "tools/scale/state.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "framework/base/error.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::scale {
namespace {

namespace fs = std::filesystem;
using telemetry::write_text;

class ScaleState : public testing::Test {
 protected:
  ScaleState() : experiment_(with_repeats(2)), points_(2) {
    points_[0].point.name = "a";
    points_[1].point.name = "b";
  }

  Experiment with_repeats(int64_t repeats) const {
    return parse_experiment(
        base::cat("recipe: r.yaml\ndir: ", (folder_ / "x").string(), "\nranks: [1]\nrepeats: ", repeats, "\n"),
        "e.yaml");
  }
  ExperimentFolder open() const { return ExperimentFolder(experiment_, points_); }
  std::string refusal() const {
    try {
      open();
    } catch (const base::Error& e) {
      return e.what();
    }
    return "accepted";
  }
  void expect_refusal(const std::string& part) const {
    const std::string text = refusal();
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
  }

  telemetry::TemporaryFolder folder_;
  Experiment experiment_;
  std::vector<LoadedPoint> points_;
  const Execution first_{.point = 0, .repeat = 1}, second_{.point = 1, .repeat = 2};
};

TEST_F(ScaleState, RunsAreRecordedInTheFolder) {
  open().start(first_);
  EXPECT_EQ(open().record(first_).state, RunState::started);
  EXPECT_EQ(open().record(second_).state, RunState::waiting);
  open().end(second_, {.state = RunState::failed,
                       .exit_code = 4,
                       .seconds = 2.5,
                       .reason = "no memory",
                       .beside = 3,
                       .shared_cores = 2,
                       .program = "hexad 1",
                       .warnings = {"slow"}});
  const RunRecord record = open().record(second_);
  EXPECT_EQ(record.state, RunState::failed);
  EXPECT_EQ(record.exit_code, 4);
  EXPECT_EQ(record.seconds, 2.5);
  EXPECT_EQ(record.reason, "no memory");
  EXPECT_EQ(record.beside, 3);
  EXPECT_EQ(record.shared_cores, 2);
  EXPECT_EQ(record.program, "hexad 1");
  EXPECT_EQ(record.warnings, (std::vector<std::string>{"slow"}));
}

TEST_F(ScaleState, RecordsOfEarlierVersionsAreRead) {
  const ExperimentFolder folder = open();
  folder.start(first_);
  write_text(folder_ / "x/a/repeat-1.json",
             R"({"state": "finished", "exit_code": 0, "seconds": 2.5, "reason": "", "beside": 1})");
  EXPECT_EQ(folder.record(first_).state, RunState::finished);
  EXPECT_TRUE(folder.record(first_).warnings.empty());
}

TEST_F(ScaleState, FinishedRunsAreLeftOut) {
  const std::vector<Execution> order{
      {.point = 1, .repeat = 1}, {.point = 0, .repeat = 1}, {.point = 0, .repeat = 2}, {.point = 1, .repeat = 2}};
  EXPECT_EQ(unfinished_runs(experiment_, points_, order), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_FALSE(fs::exists(folder_ / "x"));
  const ExperimentFolder folder = open();
  folder.end({.point = 0, .repeat = 1}, {.state = RunState::finished});
  folder.end({.point = 0, .repeat = 2}, {.state = RunState::failed});
  EXPECT_EQ(unfinished_runs(experiment_, points_, order), (std::vector<int64_t>{0, 2, 3}));
  folder.end({.point = 0, .repeat = 2}, {.state = RunState::finished});
  EXPECT_EQ(unfinished_runs(experiment_, points_, order), (std::vector<int64_t>{0, 3}));
}

TEST_F(ScaleState, AnotherStartRemovesTheRunDirectoryOfAKilledRun) {
  const ExperimentFolder folder = open();
  folder.start(first_);
  fs::create_directories(folder.run_dir(first_));
  write_text(fs::path(folder.run_dir(first_)) / "metrics.jsonl", "{");
  folder.start(first_);
  EXPECT_FALSE(fs::exists(folder.run_dir(first_)));
}

TEST_F(ScaleState, ForeignFoldersAreRefusedByName) {
  fs::create_directories(folder_ / "x");
  write_text(folder_ / "x/notes.txt", "mine");
  expect_refusal((folder_ / "x").string() + " has files, but no experiment.json");
}

TEST_F(ScaleState, AcceptsAFolderCreatedByAnotherProcess) {
  fs::create_directories(folder_ / "x");
  write_text(folder_ / "x/experiment.json.123.tmp", "{");
  write_text(folder_ / "x/scale.lock", "");
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(ScaleState, OnlyOneProcessRunsAllPoints) {
  std::optional<ExperimentFolder> first(std::in_place, experiment_, points_, true);
  EXPECT_TRUE(first->lock_descriptor().has_value());
  EXPECT_FALSE(open().lock_descriptor().has_value());  // tasks of an array and reports take no lock
  try {
    ExperimentFolder(experiment_, points_, true);
    FAIL() << "a second process was allowed to run the same points; expected an error";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::usage);
    EXPECT_NE(std::string(e.what()).find("another hexad scale runs this experiment"), std::string::npos) << e.what();
  }
  first.reset();
  EXPECT_TRUE(ExperimentFolder(experiment_, points_, true).lock_descriptor().has_value());
}

TEST_F(ScaleState, AnotherExperimentIsRefusedWithTheDifference) {
  open();
  experiment_ = with_repeats(3);
  expect_refusal("experiment.json belongs to another experiment: repeats: 2 -> 3");
  experiment_ = with_repeats(2);
  points_[1].recipe.batch.global = 64;
  expect_refusal("the recipe of a point has changed");
}

TEST_F(ScaleState, FoldersOfAnEarlierVersionAreRefused) {
  open();
  std::string text = telemetry::contents(folder_ / "x/experiment.json");
  const std::string key = "at_once: 1\\n";  // earlier versions do not have this key
  ASSERT_NE(text.find(key), std::string::npos) << text;
  write_text(folder_ / "x/experiment.json", text.erase(text.find(key), key.size()));
  expect_refusal(
      "experiment.json belongs to another experiment: the settings in the file were written by another version");
}

TEST_F(ScaleState, KeysThatChangeNoRunMayChange) {
  open();
  experiment_.config.cluster = "c.yaml";
  experiment_.config.minutes = 99;
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(ScaleState, NamesTheFolderThatCannotBeCreated) {
  write_text(folder_ / "x", "a file");
  expect_refusal((folder_ / "x").string() + " is not a folder");
  experiment_.config.dir = (folder_ / "x/y").string();
  expect_refusal((folder_ / "x/y").string() + ": cannot be created");
}

TEST_F(ScaleState, HalfWrittenFilesAreRefusedByName) {
  open().start(first_);
  write_text(folder_ / "x/a/repeat-1.json", "{\"state\": \"fin");
  EXPECT_NE(refusal().find("x/a/repeat-1.json: cannot be read as JSON, expected a JSON object"), std::string::npos);
  write_text(folder_ / "x/a/repeat-1.json", "{\"state\": 3}");
  expect_refusal("x/a/repeat-1.json is not the record of a run");
  write_text(folder_ / "x/experiment.json", "{");
  expect_refusal("experiment.json: cannot be read as JSON, expected a JSON object");
}

TEST_F(ScaleState, RunDirectoriesWithoutRecordAreRefusedByName) {
  fs::create_directories(open().run_dir(second_));
  expect_refusal("x/b/repeat-2 was not created by this experiment");
}

TEST_F(ScaleState, ADamagedRunDoesNotBlockTheExperiment) {
  const ExperimentFolder folder = open();
  folder.start(first_);
  folder.end(first_, {.state = RunState::finished});  // the run has no metrics
  EXPECT_EQ(refusal(), "accepted");
}

}  // namespace
}  // namespace hexad::scale
