// A job that continues after another job has started in its run directory writes neither checkpoints nor metrics.
#include "framework/io/run_generation.h"

#include <thread>
#include <utility>

#include "framework/io/file_lock.h"
#include "framework/telemetry/jsonl_sink.h"
#include "tests/io/checkpoint_testing.h"

namespace hexad::io {

using namespace base;
namespace {

using namespace testing;

/// Run directory in which the job `stale` has started. Most tests then start a second job, which replaces it.
struct RunGenerationTest : CheckpointTest {
  CheckpointStore store_of(const RunGeneration& generation) {
    StoreOptions of_job = options;
    of_job.generation = generation;
    return CheckpointStore(folder / "checkpoints", of_job);
  }
  std::string lines() { return read_bytes(folder / "metrics.jsonl"); }

  const RunGeneration stale = RunGeneration::take(folder.path());
  const std::vector<std::string> refusal{folder / "generation", ": is 2, expected 1, the number of this job's start"};
};

TEST_F(RunGenerationTest, NumbersIncreaseByOneWithEachStart) {
  EXPECT_EQ(stale.number(), 1);
  EXPECT_NO_THROW(stale.require_current());
  const RunGeneration newer = RunGeneration::take(folder.path());
  EXPECT_EQ(newer.number(), 2);
  EXPECT_NO_THROW(newer.require_current());
  EXPECT_NO_THROW(RunGeneration(folder.path(), 2).require_current());  // another rank of the newer job
  expect_error(ExitCode::usage, refusal, [&] { stale.require_current(); });
  expect_error(ExitCode::usage, refusal, [&] { stale.require_not_superseded(); });
}

TEST_F(RunGenerationTest, CommittedCheckpointHasTheNumberOfItsJob) {
  const RunGeneration newer = RunGeneration::take(folder.path());
  const CheckpointStore saving = store_of(newer);
  save(saving, 100, 2, device);
  EXPECT_EQ(saving.find(automatic, Check::full)->manifest().generation, 2);
  save(store, 200, 2, device);  // a store without generation
  EXPECT_EQ(store.open(200, Check::quick).manifest().generation, 0);
}

// The newer job starts at the last moment before the rename.
TEST_F(RunGenerationTest, StaleJobIsRefusedAtTheCommitOfAStartedSave) {
  options.fault = [&](std::string_view point) {
    if (point == "folder: synced") RunGeneration::take(folder.path());
  };
  const CheckpointStore old = store_of(stale);
  const Model model = model_of(100, device);
  CheckpointWriter writer(old, 100);
  writer.create();
  const std::vector<std::string> parts{writer.write_shard(0, 1, items_of(model, 0, 1))};
  expect_error(ExitCode::usage, refusal, [&] { writer.commit(state_of(100), parts); });
  EXPECT_FALSE(fs::exists(store.path(100)));
  EXPECT_FALSE(fs::exists(folder / "checkpoints/latest"));
  // The stale job leaves the folder, because the newer job removes it.
  writer.discard();
  EXPECT_TRUE(fs::exists(store.path(100) + ".1.tmp"));
  expect_warned({"is 2, expected 1"});
}

TEST_F(RunGenerationTest, StaleJobIsRefusedBeforeItWritesTheManifest) {
  const CheckpointStore old = store_of(stale);
  const Model model = model_of(100, device);
  CheckpointWriter writer(old, 100);
  writer.create();
  const std::vector<std::string> parts{writer.write_shard(0, 1, items_of(model, 0, 1))};
  const RunGeneration newer = RunGeneration::take(folder.path());
  expect_error(ExitCode::usage, refusal, [&] { writer.commit(state_of(100), parts); });
  EXPECT_FALSE(fs::exists(store.path(100) + ".1.tmp/manifest.json"));
}

// The newer job starts when the first page has been written.
TEST_F(RunGenerationTest, StaleJobIsRefusedBetweenThePagesOfTheManifest) {
  options.page_pieces = 1;
  options.fault = [&](std::string_view point) {
    if (point == "page: file synced") RunGeneration::take(folder.path());
  };
  const CheckpointStore old = store_of(stale);
  const Model model = model_of(100, device);
  CheckpointWriter writer(old, 100);
  writer.create();
  const std::vector<std::string> parts{writer.write_shard(0, 1, items_of(model, 0, 1))};
  expect_error(ExitCode::usage, refusal, [&] { writer.commit(state_of(100), parts); });
  EXPECT_TRUE(fs::exists(store.path(100) + ".1.tmp/tensors-00000.json"));
  EXPECT_FALSE(fs::exists(store.path(100) + ".1.tmp/tensors-00001.json"));
}

TEST_F(RunGenerationTest, StaleJobIsRefusedBeforeItWritesShards) {
  const CheckpointStore old = store_of(stale);
  const Model model = model_of(100, device);
  CheckpointWriter started(old, 100), late(old, 200);
  started.create();
  const RunGeneration newer = RunGeneration::take(folder.path());
  expect_error(ExitCode::usage, refusal, [&] { started.write_shard(0, 1, items_of(model, 0, 1)); });
  expect_error(ExitCode::usage, refusal, [&] { late.create(); });
  EXPECT_TRUE(fs::is_empty(store.path(100) + ".1.tmp"));
  EXPECT_FALSE(fs::exists(store.path(200) + ".1.tmp"));
}

TEST_F(RunGenerationTest, StaleJobCannotReplaceACheckpointOfTheNewerJob) {
  const CheckpointStore old = store_of(stale);
  const Model other = model_of(300, device);
  CheckpointWriter writer(old, 100);
  writer.create();
  const std::vector<std::string> parts{writer.write_shard(0, 1, items_of(other, 0, 1))};
  const RunGeneration newer = RunGeneration::take(folder.path());
  const CheckpointStore current = store_of(newer);
  current.clean();
  save(current, 100, 2, device);
  // commit() may fail because the shard is gone, or because the newer job has started. Neither failure changes the
  // checkpoint.
  EXPECT_THROW(writer.commit(state_of(100), parts), Error);
  writer.discard();
  expect_holds(store.open(100, Check::full), 100, device);
}

TEST_F(RunGenerationTest, StaleJobIsRefusedAtCleaningRetentionAndAbandoning) {
  for (const int64_t step : {100, 200, 300, 400}) save(store_of(stale), step, 1, device);
  const std::vector<int64_t> before = store.steps();
  fs::create_directories(store.path(500) + ".tmp");
  const RunGeneration newer = RunGeneration::take(folder.path());
  const CheckpointStore old = store_of(stale);
  expect_error(ExitCode::usage, refusal, [&] { old.clean(); });
  expect_error(ExitCode::usage, refusal, [&] { old.retain(); });
  expect_error(ExitCode::usage, refusal, [&] { old.abandon_after(100); });
  EXPECT_TRUE(fs::exists(store.path(500) + ".tmp"));
  EXPECT_EQ(store.steps(), before);
  store_of(newer).clean();
  EXPECT_FALSE(fs::exists(store.path(500) + ".tmp"));
}

// A job that is suspended after a check must not write into the folder of the newer job.
TEST_F(RunGenerationTest, JobsSaveAStepInDifferentFolders) {
  const CheckpointStore old = store_of(stale);
  const Model model = model_of(100, device);
  CheckpointWriter started(old, 100);
  started.create();
  const RunGeneration newer = RunGeneration::take(folder.path());
  const CheckpointStore current = store_of(newer);
  CheckpointWriter writer(current, 100);
  writer.create();
  EXPECT_EQ(old.unfinished_path(100), store.path(100) + ".1.tmp");
  EXPECT_EQ(current.unfinished_path(100), store.path(100) + ".2.tmp");
  EXPECT_EQ(store.unfinished_path(100), store.path(100) + ".tmp");
  EXPECT_TRUE(fs::exists(old.unfinished_path(100)));
  const std::vector<std::string> parts{writer.write_shard(0, 1, items_of(model, 0, 1))};
  fs::copy(current.unfinished_path(100), old.unfinished_path(100), fs::copy_options::recursive);  // a late write
  writer.commit(state_of(100), parts);
  EXPECT_EQ(store.steps(), std::vector<int64_t>{100});
  expect_holds(store.open(100, Check::full), 100, device);
  current.clean();
  EXPECT_FALSE(fs::exists(old.unfinished_path(100)));
}

// The newer job starts during the first of several removals. The stale job may complete this removal, but must not
// begin another.
TEST_F(RunGenerationTest, StaleJobIsRefusedBetweenTheRemovalsOfARetention) {
  options.keep = 0;
  for (const int64_t step : {100, 200, 300, 400}) save(store_of(stale), step, 1, device);
  options.keep = 1;
  bool started = false;
  options.fault = [&](std::string_view point) {
    if (point == "retention: renamed" && !std::exchange(started, true)) RunGeneration::take(folder.path());
  };
  expect_error(ExitCode::usage, refusal, [&] { store_of(stale).retain(); });
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{200, 300, 400}));
}

TEST_F(RunGenerationTest, StaleJobIsRefusedBetweenTheRemovalsOfACleaning) {
  for (const int64_t step : {100, 200, 300}) {
    fs::create_directories(store.path(step) + ".tmp");
    write_bytes(store.path(step) + ".tmp/shard", "");
  }
  const FileWork work;
  options.work = work;
  bool started = false;
  work.on_move([&](uint64_t) {
    if (!std::exchange(started, true)) RunGeneration::take(folder.path());
  });
  expect_error(ExitCode::usage, refusal, [&] { store_of(stale).clean(); });
  EXPECT_FALSE(fs::exists(store.path(100) + ".tmp"));
  EXPECT_TRUE(fs::exists(store.path(200) + ".tmp"));
  EXPECT_TRUE(fs::exists(store.path(300) + ".tmp"));
}

TEST_F(RunGenerationTest, StaleJobIsRefusedBetweenAbandonedCheckpoints) {
  options.keep = 0;
  for (const int64_t step : {100, 200, 300}) save(store_of(stale), step, 1, device);
  fs::create_directories(store.path(200) + ".abandoned");
  write_bytes(store.path(200) + ".abandoned/shard", "");
  const FileWork work;
  options.work = work;
  bool started = false;
  work.on_move([&](uint64_t) {
    if (!std::exchange(started, true)) RunGeneration::take(folder.path());
  });
  expect_error(ExitCode::usage, refusal, [&] { store_of(stale).abandon_after(100); });
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{100, 200, 300}));
}

TEST_F(RunGenerationTest, StaleJobIsRefusedAtMetrics) {
  std::vector<std::string> tolerated;
  const auto sink_of = [&](const RunGeneration& generation) {
    auto file = telemetry::tolerate_failures(std::make_unique<telemetry::JsonlSink>(folder / "metrics.jsonl"),
                                             [&](const std::string& text) { tolerated.push_back(text); });
    return telemetry::checked(std::move(file), [=] { generation.require_current(); });
  };
  const auto old = sink_of(stale);
  old->on_start({});
  old->on_eval({.step = 1});
  const RunGeneration newer = RunGeneration::take(folder.path());
  const auto current = sink_of(newer);
  current->on_start({.name = "run", .first_step = 1});
  current->on_eval({.step = 2});
  const std::string before = lines();
  expect_error(ExitCode::usage, refusal, [&] { old->on_step({}); });
  expect_error(ExitCode::usage, refusal, [&] { old->on_eval({.step = 2}); });
  expect_error(ExitCode::usage, refusal, [&] { old->on_save({.step = 2}); });
  expect_error(ExitCode::usage, refusal, [&] { old->on_start({}); });
  expect_error(ExitCode::usage, refusal, [&] { old->on_end(); });
  EXPECT_EQ(lines(), before);
  EXPECT_TRUE(tolerated.empty());
}

TEST_F(RunGenerationTest, StartWaitsForACommit) {
  std::optional<FileLock> commit = FileLock::take(folder / "generation.lock", FileLock::Mode::exclusive);
  ASSERT_TRUE(commit);
  expect_error(ExitCode::usage, {folder / "generation.lock", "held by another job for 0.05 s"},
               [&] { RunGeneration::take(folder.path(), std::chrono::milliseconds(50)); });
  EXPECT_NO_THROW(stale.require_current());  // the refused start does not increase the generation
  std::thread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    commit.reset();
  });
  EXPECT_EQ(RunGeneration::take(folder.path(), std::chrono::hours(1)).number(), 2);
  end.join();
}

TEST_F(RunGenerationTest, NoJobStartsDuringACommit) {
  stale.run_if_current([&] {
    expect_error(ExitCode::usage, {"generation.lock: held by another job"},
                 [&] { RunGeneration::take(folder.path(), std::chrono::milliseconds(1)); });
  });
  EXPECT_EQ(RunGeneration::take(folder.path()).number(), 2);
  bool written = false;
  expect_error(ExitCode::usage, refusal, [&] { stale.run_if_current([&] { written = true; }); });
  EXPECT_FALSE(written);
}

TEST_F(RunGenerationTest, NodesThatDoNotShareTheDirectoryAreNamed) {
  const RunGeneration second(folder.path(), 2), other(folder / "elsewhere", 2);
  using namespace std::chrono_literals;
  expect_error(ExitCode::resource,
               {folder / "generation: is 1 on node b, expected 2, which rank 0 has written", "share"},
               [&] { second.require_visible("b", 30ms); });
  expect_error(ExitCode::resource, {"elsewhere/generation: does not exist on node b, expected 2"},
               [&] { other.require_visible("b", 0ms); });
  write_bytes(folder / "generation", "");
  std::jthread late([&] {
    std::this_thread::sleep_for(50ms);
    write_bytes(folder / "generation", "2\n");
  });
  EXPECT_NO_THROW(second.require_visible("b")) << "an empty file must be read again";
  late.join();
  expect_error(ExitCode::usage, refusal, [&] { stale.require_visible("b"); });
  write_bytes(folder / "generation", "many");
  expect_error(ExitCode::data, {"contains 'many'"}, [&] { second.require_visible("b", 0ms); });
}

TEST_F(RunGenerationTest, RemovedOrDamagedFileIsNamed) {
  fs::remove(folder / "generation");
  expect_error(ExitCode::usage, {folder / "generation: was removed, expected 1"}, [&] { stale.require_current(); });
  for (const std::string text : {"many\n", "0\n", "-3\n", "7 \n", "99999999999999999999\n", "", "\n"}) {
    write_bytes(folder / "generation", text);
    expect_error(ExitCode::data, {folder / "generation: contains '", "expected an integer of at least 1"},
                 [&] { stale.require_current(); });
    expect_error(ExitCode::data, {folder / "generation: contains '"}, [&] { RunGeneration::take(folder.path()); });
    EXPECT_NO_THROW(stale.require_not_superseded());
  }
  write_bytes(folder / "generation", "\x1b[2J");
  expect_error(ExitCode::data, {folder / "generation: contains '\\x1b[2J', expected"},
               [&] { stale.require_current(); });
  fs::remove(folder / "generation");
  fs::create_directory(folder / "generation");
  expect_error(ExitCode::resource, {folder / "generation: cannot be read"}, [&] { stale.require_current(); });
  EXPECT_NO_THROW(stale.require_not_superseded());
}

}  // namespace
}  // namespace hexad::io
