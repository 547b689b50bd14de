// Saves that fail or are killed leave a complete checkpoint, either the old or the new checkpoint.
#include <sys/mount.h>
#include <sys/resource.h>

#include <csignal>

#include "framework/io/manifest.h"
#include "tests/io/checkpoint_testing.h"

namespace hexad::io {

using namespace base;
namespace {

using namespace testing;

struct CheckpointFaults : CheckpointTest {};

TEST_F(CheckpointFaults, FullDiskNamesTheFileAndLeavesTheLastGoodCheckpoint) {
  const std::string disk = folder / "disk";
  fs::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "mounting a small file system failed: " << std::strerror(errno);
  struct Unmount {
    const std::string& path;
    ~Unmount() { ::umount2(path.c_str(), MNT_DETACH); }
  } unmount{disk};
  const CheckpointStore small(disk + "/checkpoints", options);
  save(small, 100, 2, device);
  const Tensor large = Tensor::zeros({2 << 20}, Dtype::u8, device);
  CheckpointWriter writer(small, 200);
  writer.create();
  expect_error(ExitCode::resource,
               {"step-00000200.tmp/shard-00000-of-00001.safetensors: cannot be written after ",
                " bytes: No space left on device"},
               [&] {
                 writer.write_shard(
                     0, 1,
                     std::vector<ShardItem>{{"large", Kind::parameter, large.shape(), whole(large.shape()), large}});
               });
  writer.discard();
  EXPECT_FALSE(fs::exists(disk + "/checkpoints/step-00000200.tmp"));
  EXPECT_EQ(small.steps(), std::vector<int64_t>{100});
  expect_holds(*small.find(automatic, Check::full), 100, device);
  save(small, 300, 2, device);  // the disk has free space again
  EXPECT_TRUE(warnings.empty());
}

TEST_F(CheckpointFaults, FileSizeLimitIsAnErrorNotASignal) {
  save(store, 100, 1, device);
  EXPECT_EQ(in_child([&] {
              std::signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{2000, 2000};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
              try {
                save(store, 200, 1, device);
              } catch (const Error& error) {
                CheckpointWriter(store, 200).discard();
                return static_cast<int>(error.code());
              }
              return 0;
            }),
            4);
  EXPECT_EQ(store.find(automatic, Check::full)->step(), 100);
  EXPECT_FALSE(fs::exists(store.path(200) + ".tmp"));
}

/// Saves `step` in a process that dies at point n of the save (FaultHook), counted from 0. Returns true and the name of
/// that point, or false if the save has no more than n points.
std::pair<bool, std::string> save_and_die(const std::string& path, StoreOptions options, int64_t step, int n,
                                          Device device) {
  const std::string note = path + "-point";
  options.fault = [&, n](std::string_view point) mutable {
    if (n-- > 0) return;
    write_bytes(note, std::string(point));
    ::_exit(9);
  };
  const bool died = in_child([&] {
                      save(CheckpointStore(path, options), step, 2, device);
                      return 0;
                    }) == 9;
  return {died, died ? read_bytes(note) : ""};
}

TEST_F(CheckpointFaults, KillAtAnyPointLeavesTheOldOrTheNewCheckpoint) {
  options.keep = 2;
  options.page_pieces = 5;
  std::string seen;
  for (int n = 0;; ++n) {
    const CheckpointStore run(folder / cat("run-", n), options);
    for (int64_t step : {80, 90, 100}) save(run, step, 2, device);
    const auto [died, point] = save_and_die(run.folder(), options, 200, n, device);
    SCOPED_TRACE(cat("killed at: ", point));
    seen += point + "\n";
    warnings.clear();
    const auto check = [&] {
      auto checkpoint = run.find(automatic, Check::full);
      ASSERT_TRUE(checkpoint);
      const int64_t step = checkpoint->step() == 200 ? 200 : 100;
      expect_holds(std::move(*checkpoint), step, device);
    };
    check();  // before clean(), because another process may read the folder in this state
    run.clean();
    check();
    EXPECT_TRUE(warnings.empty()) << warnings.front();
    for (const auto& entry : fs::directory_iterator(run.folder())) {
      EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
    }
    save(run, 300, 1, device);
    EXPECT_EQ(run.find(automatic, Check::full)->step(), 300);
    if (!died) break;
  }
  for (const char* point :
       {"folder: created", "shard: file created", "shard: file written", "shard: file synced", "page: file synced",
        "manifest: file written", "manifest: file synced", "folder: synced", "folder: renamed", "folder: rename synced",
        "latest: file written", "latest: file renamed", "retention: renamed", "retention: removed"}) {
    EXPECT_NE(seen.find(point), std::string::npos) << point << " was never reached";
  }
}

TEST_F(CheckpointFaults, KillDuringARepeatedSaveLosesNothing) {
  for (int n = 0;; ++n) {
    const CheckpointStore run(folder / cat("run-", n), options);
    save(run, 200, 2, device);
    const auto [died, point] = save_and_die(run.folder(), options, 200, n, device);
    SCOPED_TRACE(cat("killed at: ", point));
    run.clean();
    auto checkpoint = run.find(automatic, Check::full);
    ASSERT_TRUE(checkpoint);
    expect_holds(std::move(*checkpoint), 200, device);
    if (!died) break;
  }
}

TEST_F(CheckpointFaults, ErrorAtAnyPointLeavesTheOldOrTheNewCheckpoint) {
  for (int n = 0;; ++n) {
    const CheckpointStore quiet(folder / cat("run-", n), options);
    for (int64_t step : {80, 90, 100}) save(quiet, step, 2, device);
    bool failed = false;
    int left = n;
    options.fault = [&](std::string_view point) {
      if (left-- != 0) return;
      failed = true;
      fail(ExitCode::resource, "injected at ", point);
    };
    const CheckpointStore run(quiet.folder(), options);
    try {
      save(run, 200, 2, device);
    } catch (const Error& error) {
      CheckpointWriter(run, 200).discard();
    }
    options.fault = {};
    EXPECT_FALSE(fs::exists(run.path(200) + ".tmp"));
    auto checkpoint = quiet.find(automatic, Check::full);
    ASSERT_TRUE(checkpoint);
    const int64_t step = checkpoint->step() == 200 ? 200 : 100;
    expect_holds(std::move(*checkpoint), step, device);
    if (!failed) break;
  }
}

TEST_F(CheckpointFaults, UnconfirmedRenameKeepsTheSaveAndOlderCheckpoints) {
  options.keep = 1;
  const CheckpointStore quiet(folder / "one", options);
  save(quiet, 100, 1, device);
  for (const std::string point : {"folder: renamed", "folder: rename synced"}) {
    const int64_t step = point == "folder: renamed" ? 200 : 300;
    options.fault = [&](std::string_view at) {
      if (at == point) fail(ExitCode::resource, "I/O error");
    };
    warnings.clear();
    const CheckpointStore run(quiet.folder(), options);
    EXPECT_NO_THROW(save(run, step, 1, device));
    expect_warned({run.path(step) + " is saved, but may not survive a power cut: I/O error"});
    expect_holds(*quiet.find(automatic, Check::full), step, device);
  }
  EXPECT_EQ(quiet.steps(), (std::vector<int64_t>{100, 200, 300}));
  save(quiet, 400, 1, device);  // a checkpoint that is confirmed on disk
  EXPECT_EQ(quiet.steps(), std::vector<int64_t>{400});
}

TEST_F(CheckpointFaults, UnreadableManifestIsNotWritten) {
  save(store, 100, 1, device);
  const std::string text = read_bytes(store.path(100) + "/manifest.json");
  const auto length = static_cast<int64_t>(text.size());
  EXPECT_NO_THROW(require_readable(text, "m", length));
  expect_error(ExitCode::resource, {cat("m: would have ", length, " bytes, expected at most ", length - 1)},
               [&] { require_readable(text, "m", length - 1); });
  EXPECT_NO_THROW(require_accepted_size("page", "p", 4));
  expect_error(ExitCode::resource, {"p: would have 4 bytes, expected at most 3"},
               [&] { require_accepted_size("page", "p", 3); });
  // Alone, 63 levels of nesting are legal, but the manifest adds two levels.
  RunState state = state_of(200);
  state.layout = std::string(63, '[') + std::string(63, ']');
  CheckpointWriter writer(store, 200);
  writer.create();
  const std::string part = writer.write_shard(0, 1, items_of(model_of(200, device), 0, 1));
  expect_error(ExitCode::resource, {"step-00000200.tmp/manifest.json", "nested deeper than 64", "not written"},
               [&] { writer.commit(state, std::vector<std::string>{part}); });
  EXPECT_FALSE(fs::exists(store.path(200) + ".tmp/manifest.json"));
  writer.discard();
  EXPECT_EQ(store.find(automatic, Check::full)->step(), 100);
}

TEST_F(CheckpointFaults, ShardsInvisibleToRankZeroStopTheCommit) {
  CheckpointWriter writer(store, 100);
  writer.create();
  const std::string part = writer.write_shard(0, 1, items_of(model_of(100, device), 0, 1));
  fs::remove(store.path(100) + ".tmp/shard-00000-of-00001.safetensors");
  expect_error(ExitCode::resource, {"here it is missing; expected a folder that all ranks share"},
               [&] { writer.commit(state_of(100), std::vector<std::string>{part}); });
  writer.discard();
}

}  // namespace
}  // namespace hexad::io
