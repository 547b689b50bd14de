// Checkpoints that retention and the removal of leftovers delete or keep.
#include "framework/io/manifest.h"
#include "tests/io/checkpoint_testing.h"

namespace hexad::io {

using namespace base;
namespace {

using namespace testing;

struct CheckpointFaults : CheckpointTest {};

TEST_F(CheckpointFaults, RetentionSparesCheckpointsInUse) {
  options.keep = 1;
  const CheckpointStore one(folder / "one", options);
  save(one, 100, 1, device);
  {
    Checkpoint reader = one.open(100, Check::quick);
    for (int64_t step : {200, 300}) save(one, step, 1, device);
    EXPECT_EQ(one.steps(), (std::vector<int64_t>{100, 300}));
    expect_holds(std::move(reader), 100, device);
  }
  save(one, 400, 1, device);
  EXPECT_EQ(one.steps(), std::vector<int64_t>{400});
  EXPECT_TRUE(warnings.empty());
}

TEST_F(CheckpointFaults, RetentionKeepsTheNewestValidCheckpoint) {
  options.keep = 1;
  const CheckpointStore all(folder / "one", {.keep = 0, .warn = options.warn, .fault = {}});
  const CheckpointStore one(folder / "one", options);
  for (int64_t step : {100, 200, 300, 400}) save(all, step, 1, device);
  fs::remove(one.path(400) + "/manifest.json");
  fs::resize_file(one.path(300) + "/shard-00000-of-00001.safetensors", 10);
  one.retain();
  EXPECT_EQ(one.steps(), (std::vector<int64_t>{200, 300, 400}));
  EXPECT_EQ(one.find(automatic, Check::full)->step(), 200);
}

TEST_F(CheckpointFaults, RetentionDeletesNothingIfNoCheckpointIsGood) {
  options.keep = 1;
  const CheckpointStore all(folder / "one", {.keep = 0, .warn = options.warn, .fault = {}});
  for (int64_t step : {100, 200}) {
    save(all, step, 1, device);
    fs::remove(all.path(step) + "/manifest.json");
  }
  CheckpointStore(folder / "one", options).retain();
  EXPECT_EQ(all.steps(), (std::vector<int64_t>{100, 200}));
}

TEST_F(CheckpointFaults, RetentionRemovesACheckpointWithALeftoverOfItsStep) {
  options.keep = 1;
  const CheckpointStore all(folder / "one", {.keep = 0, .warn = options.warn, .fault = {}});
  const CheckpointStore one(folder / "one", options);
  for (int64_t step : {100, 200}) save(all, step, 1, device);
  fs::create_directories(one.unfinished_path(100));
  write_bytes(one.unfinished_path(100) + "/shard", "");
  one.retain();
  EXPECT_EQ(one.steps(), std::vector<int64_t>{200});
  EXPECT_FALSE(fs::exists(one.unfinished_path(100)));
  EXPECT_TRUE(warnings.empty());
}

TEST_F(CheckpointFaults, CleaningRemovesOnlyLeftoversOfSaves) {
  save(store, 100, 1, device);
  fs::create_directories(store.path(200) + ".tmp/sub");
  write_bytes(folder / "checkpoints/latest.4711.tmp", "");
  write_bytes(folder / "checkpoints/notes.tmp", "the user's");
  store.clean();
  EXPECT_FALSE(fs::exists(store.path(200) + ".tmp"));
  EXPECT_FALSE(fs::exists(folder / "checkpoints/latest.4711.tmp"));
  EXPECT_TRUE(fs::exists(folder / "checkpoints/notes.tmp"));
  EXPECT_EQ(store.steps(), std::vector<int64_t>{100});
}

}  // namespace
}  // namespace hexad::io
