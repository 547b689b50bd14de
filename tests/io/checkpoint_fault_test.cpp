// Damaged, incomplete and missing files of checkpoints.
#include "framework/io/manifest.h"
#include "tests/io/checkpoint_testing.h"

namespace hexad::io {

using namespace base;
namespace {

using namespace testing;

struct CheckpointFaults : CheckpointTest {};

TEST_F(CheckpointFaults, ScanNamesBadCheckpointsAndTheNewestGoodCheckpoint) {
  for (int64_t step : {100, 200, 300}) save(store, step, 2, device);
  const TensorInfo info = SafetensorsFile::open(shard(300)).info("experts.up[0:2,0:6,0:8]");
  flip_bit(shard(300), info.begin);
  fs::remove(shard(100));
  EXPECT_EQ(store.scan(Check::quick).problems.size(), 1);
  const auto scan = store.scan(Check::full);
  ASSERT_EQ(scan.good.size(), 1);
  EXPECT_EQ(scan.good[0].step(), 200);
  ASSERT_EQ(scan.problems.size(), 2);
  EXPECT_NE(scan.problems[0].find(shard(100) + ": is missing"), std::string::npos) << scan.problems[0];
  EXPECT_NE(scan.problems[1].find(shard(300) + ": parameter 'experts.up' is damaged"), std::string::npos)
      << scan.problems[1];
}

TEST_F(CheckpointFaults, LatestIsOnlyAHint) {
  save(store, 100, 1, device);
  save(store, 200, 1, device);
  const std::string latest = folder / "checkpoints/latest";
  const auto expect_scan = [&](const std::string& warning) {
    warnings.clear();
    EXPECT_EQ(store.find(automatic, Check::full)->step(), 200);
    if (warning.empty())
      EXPECT_TRUE(warnings.empty()) << warnings.front();
    else
      expect_warned({latest, warning});
  };
  expect_scan("");
  write_bytes(latest, "step-00000100\n");  // a save was killed before the update
  expect_scan("");
  fs::remove(latest);
  expect_scan("is missing");
  write_bytes(latest, "step-00000900\n");
  expect_scan("names step-00000900, which does not exist");
  for (const std::string& garbage :
       {std::string(), std::string("../../etc/passwd"), std::string("step-1\n"), std::string("\0\xff\n", 3)}) {
    write_bytes(latest, garbage);
    expect_scan("does not name a checkpoint, expected a text such as step-00000100");
  }
  write_bytes(latest, "step-1\x1b\n");
  expect_scan("contains 'step-1\\x1b', which does not name");
  write_bytes(latest, std::string(1000, 'x'));
  expect_scan("expected at most 100");
  fs::remove(latest);
  fs::create_symlink("nowhere", latest);
  expect_scan("cannot be opened");
  fs::remove(latest);
  fs::create_directory(latest);
  expect_scan("is not a regular file");
}

TEST_F(CheckpointFaults, FlippedBitOfAShardIsFoundAndTheTensorNamed) {
  save(store, 100, 2, device);
  save(store, 200, 2, device);
  const std::string good = read_bytes(shard(200)), path = shard(200);
  const SafetensorsFile file = SafetensorsFile::open(path);
  int inside_tensors = 0;
  for (size_t byte = 0; byte < good.size(); byte += byte < 16 ? 1 : 37) {
    SCOPED_TRACE(byte);
    write_bytes(path, good);
    flip_bit(path, byte, static_cast<int>(byte % 8));
    warnings.clear();
    auto checkpoint = store.find(automatic, Check::full);
    ASSERT_TRUE(checkpoint);
    ASSERT_EQ(checkpoint->step(), 100);
    expect_warned({path, "using " + store.path(100) + ", the newest good checkpoint, instead"});
    for (const TensorInfo& t : file.tensors()) {
      const bool inside_tensor = t.begin <= static_cast<int64_t>(byte) && static_cast<int64_t>(byte) < t.end;
      if (!inside_tensor) continue;
      ++inside_tensors;
      const std::string piece = t.name.substr(0, t.name.find('['));  // "main:experts.up" of "main:experts.up[0:2,...]"
      expect_warned({cat("'", piece.substr(piece.find(':') + 1), "' is damaged: digest ")});
    }
  }
  EXPECT_GT(inside_tensors, 0);
}

TEST_F(CheckpointFaults, DamageIsFoundInPartialReads) {
  save(store, 200, 2, device);
  const TensorInfo info = SafetensorsFile::open(shard(200)).info("experts.up[0:2,0:6,0:8]");
  flip_bit(shard(200), info.begin);
  Checkpoint checkpoint = store.open(200, Check::quick);
  const Region last{{3, 5, 7}, {1, 1, 1}};  // a region of the other shard
  checkpoint.read("experts.up", Kind::parameter, last, device);
  const Region same_piece{{1, 0, 0}, {1, 6, 8}};
  expect_error(ExitCode::data, {shard(200), "parameter 'experts.up' is damaged"},
               [&] { checkpoint.read("experts.up", Kind::parameter, same_piece, device); });
}

TEST_F(CheckpointFaults, TruncatedEmptyMissingAndForeignShardsFallBack) {
  const auto expect_fallback = [&](const std::string& why) {
    SCOPED_TRACE(why);
    for (Check check : {Check::quick, Check::full}) {
      warnings.clear();
      auto checkpoint = store.find(automatic, check);
      ASSERT_TRUE(checkpoint);
      expect_holds(std::move(*checkpoint), 100, device);
      expect_warned({shard(200), why, "using " + store.path(100)});
    }
    expect_error(ExitCode::data, {shard(200), why}, [&] { store.find(Resume::parse("200"), Check::full); });
  };
  save(store, 100, 2, device);
  save(store, 200, 2, device);
  const std::string good = read_bytes(shard(200));
  fs::resize_file(shard(200), good.size() - 1);
  expect_fallback(cat("has ", good.size() - 1, " bytes, expected ", good.size(),
                      " (the file holds parameter 'embedding.weight' and "));
  fs::resize_file(shard(200), 0);
  expect_fallback("has 0 bytes");
  fs::remove(shard(200));
  expect_fallback("is missing");
  fs::create_directory(shard(200));
  expect_fallback("is not a regular file");
  fs::remove(shard(200));
  fs::copy_file(shard(200, "00001-of-00002"), shard(200));
  expect_fallback("bytes, expected");

  fs::remove(shard(200));
  fs::copy_file(shard(100), shard(200));  // same run and size, but another step
  ASSERT_EQ(fs::file_size(shard(200)), good.size());
  EXPECT_EQ(store.find(automatic, Check::full)->step(), 100);
  expect_warned({shard(200), "is damaged: digest"});
}

TEST_F(CheckpointFaults, WarnsOfTheSelectionOnlyIfANewerCheckpointIsBad) {
  for (int64_t step : {100, 200, 300}) save(store, step, 1, device);
  fs::remove(store.path(100) + "/manifest.json");
  EXPECT_EQ(store.find(automatic, Check::full)->step(), 300);
  ASSERT_EQ(warnings.size(), 1u);
  expect_warned({"bad checkpoint: " + store.path(100) + "/manifest.json: is missing"});
  warnings.clear();
  flip_bit(shard(300, "00000-of-00001"), 3000);  // found only by a full check
  EXPECT_EQ(store.find(automatic, Check::full)->step(), 200);
  EXPECT_EQ(warnings.size(), 3u);
  expect_warned({"using " + store.path(200) + ", the newest good checkpoint, instead"});
}

TEST_F(CheckpointFaults, UserMustDecideIfNoCheckpointIsGood) {
  save(store, 100, 1, device);
  flip_bit(shard(100, "00000-of-00001"), 3000);
  expect_error(ExitCode::data, {"no checkpoint is good; to start over, set checkpoint.resume: none", "is damaged"},
               [&] { store.find(automatic, Check::full); });
}

TEST_F(CheckpointFaults, ManifestMissingCorruptOrNewerIsNotACheckpoint) {
  save(store, 100, 2, device);
  save(store, 200, 2, device);
  const std::string path = store.path(200) + "/manifest.json", good = read_bytes(path);
  const auto expect_fallback = [&](const std::string& why) {
    SCOPED_TRACE(why);
    warnings.clear();
    EXPECT_EQ(store.find(automatic, Check::full)->step(), 100);
    expect_warned({path + ": " + why, "using " + store.path(100)});
    expect_error(ExitCode::data, {path + ": " + why}, [&] { store.find(Resume::parse("200"), Check::full); });
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write_bytes(path, text.replace(at, from.size(), to));
  };
  fs::remove(path);
  expect_fallback("is missing, so this is not a checkpoint");
  write_bytes(path, "");
  expect_fallback("not valid JSON");
  write_bytes(path, good.substr(0, good.size() / 2));
  expect_fallback("not valid JSON");
  write_bytes(path, "[]");
  expect_fallback("the document is an array of 0 elements, expected an object");
  with("\"version\": 1", "\"version\": 3");
  expect_fallback("has version 3, written by a newer program; this program reads versions up to 2");
  with("hexad-checkpoint", "hexad-checkpoinT");
  expect_fallback("format is \"hexad-checkpoinT\", expected \"hexad-checkpoint\"");
  with("\"tokens\": 819200", "\"tokens\": 819201");
  expect_fallback("is damaged: its content has digest ");
  fs::remove(path);
  fs::create_symlink(store.path(100) + "/manifest.json", path);
  expect_fallback("is a link");
  fs::remove(path);
  fs::copy_file(store.path(100) + "/manifest.json", path);
  expect_error(ExitCode::data, {store.path(200)}, [&] { store.find(Resume::parse("200"), Check::full); });
}

TEST_F(CheckpointFaults, FuzzedManifestsAreRefusedOrMeanTheSame) {
  save(store, 100, 2, device);
  const std::string good = read_bytes(store.path(100) + "/manifest.json");
  const std::string meaning = manifest_to_json(manifest_from_json(good, "m"));
  EXPECT_EQ(meaning, good);
  const Philox random(21, Purpose::synthetic, "fuzz");
  for (uint64_t i = 0; i < 2000; ++i) {
    std::string bad = good;
    bad[random.below(4 * i, bad.size())] ^= static_cast<char>(1 << random.below(4 * i + 1, 8));
    if (i % 10 == 0) bad.resize(random.below(4 * i + 2, bad.size()));
    try {
      EXPECT_EQ(manifest_to_json(manifest_from_json(bad, "m")), meaning) << "round " << i;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data) << error.what();
    }
  }
}

TEST_F(CheckpointFaults, ShardNamesOutsideTheFolderAreRefused) {
  save(store, 100, 1, device);
  Manifest manifest = manifest_from_json(read_bytes(store.path(100) + "/manifest.json"), "m");
  for (const std::string& name : {std::string("/etc/passwd"), std::string("../step-00000200/a"), std::string("a/b"),
                                  std::string(".."), std::string(), std::string("a\0b", 3), std::string("a\nb")}) {
    manifest.shards[0].file = name;
    expect_error(ExitCode::data, {"shards[0].file", "expected a file name of letters, digits"},
                 [&] { manifest_from_json(manifest_to_json(manifest), "m"); });
  }
}

TEST_F(CheckpointFaults, LinkedShardIsRefused) {
  save(store, 100, 1, device);
  const std::string path = shard(100, "00000-of-00001"), moved = folder / "elsewhere";
  fs::rename(path, moved);
  fs::create_symlink(moved, path);
  expect_error(ExitCode::data, {path, "is a link (the file holds ", "; expected a regular file"},
               [&] { store.find(Resume::parse("100"), Check::quick); });
}

TEST_F(CheckpointFaults, InconsistentManifestIsRefusedDespiteAValidDigest) {
  save(store, 100, 1, device);
  const Manifest good = manifest_from_json(read_bytes(store.path(100) + "/manifest.json"), "m");
  const auto refused = [&](const std::string& why, const std::function<void(Manifest&)>& change) {
    Manifest bad = good;
    change(bad);
    expect_error(ExitCode::data, {why}, [&] { manifest_from_json(manifest_to_json(bad), "m"); });
  };
  refused("a region inside", [](Manifest& m) { m.tensors[0].pieces[0].region.begin[0] = 1; });
  refused("tensors[0].pieces[0].shard is 1, expected an integer from 0 to 0",
          [](Manifest& m) { m.tensors[0].pieces[0].shard = 1; });
  refused("less than 2^63 bytes", [](Manifest& m) { m.tensors[0].shape = {INT64_MAX, 8}; });
  refused("pieces that add up to the 88 elements", [](Manifest& m) { m.tensors[0].pieces.clear(); });
  refused("a digest of 32 hexadecimal digits", [](Manifest& m) { m.shards[0].digest = "0"; });
}

}  // namespace
}  // namespace hexad::io
