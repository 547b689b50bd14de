// Exactness, resharding and retention of checkpoints, and contents of the manifest. checkpoint_fault_test.cpp,
// checkpoint_retention_test.cpp and save_fault_test.cpp test faults.
#include "tests/io/checkpoint_testing.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "framework/data/digest.h"
#include "framework/io/inspect_checkpoint.h"
#include "framework/io/json.h"

namespace hexad::io {

using namespace base;
namespace {

using namespace testing;

struct Checkpoints : CheckpointTest {};

TEST_F(Checkpoints, SavedUnderAnyLayoutLoadsBitForBit) {
  for (int ranks : {1, 2, 4}) {
    save(store, 100 * ranks, ranks, device);
    auto checkpoint = store.find(automatic, Check::full);
    ASSERT_TRUE(checkpoint);
    expect_holds(std::move(*checkpoint), 100 * ranks, device);
  }
  EXPECT_TRUE(warnings.empty());
}

TEST_F(Checkpoints, AnyLayoutLoadsCheckpointsOfAnyOtherLayout) {
  for (int writers : {1, 2, 4}) {
    save(store, writers, writers, device);
    const Model model = model_of(writers, device);
    for (int readers : {1, 2, 4}) {
      for (int rank = 0; rank < readers; ++rank) {
        Checkpoint checkpoint = store.open(writers, Check::quick);
        for (const ShardItem& item : items_of(model, rank, readers)) {
          expect_bitwise(checkpoint.read(item.name, item.kind, item.region, device), item.tensor.get());
        }
      }
    }
  }
}

TEST_F(Checkpoints, RegionsAcrossPiecesInTwoDimensionsAreAssembled) {
  const Tensor t = random_bits({6, 10}, Dtype::f32, device, 1);
  CheckpointWriter writer(store, 5);
  writer.create();
  std::vector<std::string> parts;
  for (int i = 0; i < 6; ++i) {  // 3 x 2 pieces: two rows each, with 3 or 7 columns
    const Region region = i % 2 ? Region{{i / 2 * 2, 3}, {2, 7}} : Region{{i / 2 * 2, 0}, {2, 3}};
    parts.push_back(
        writer.write_shard(i, 6, std::vector<ShardItem>{{"t", Kind::main, t.shape(), region, slice(t, region)}}));
  }
  writer.commit(state_of(5), parts);
  Checkpoint checkpoint = store.open(5, Check::full);
  for (const Region& region :
       {Region{{1, 2}, {4, 3}}, Region{{0, 0}, {6, 10}}, Region{{5, 9}, {1, 1}}, Region{{2, 3}, {0, 4}}}) {
    expect_bitwise(checkpoint.read("t", Kind::main, region, device), slice(t, region));
  }
  expect_error(ExitCode::data, {"main 't' has shape [6, 10]; region [0, 0]+[7, 10] exceeds this shape"}, [&] {
    checkpoint.read("t", Kind::main, {{0, 0}, {7, 10}}, device);
  });
  expect_error(ExitCode::data, {"contains no tensor 'moment1:t'"},
               [&] { checkpoint.read("t", Kind::moment1, device); });
}

TEST_F(Checkpoints, WriterMayPutTwoPiecesOfOneTensorIntoItsShard) {
  const Tensor t = random_bits({4, 2}, Dtype::i32, device, 2);
  CheckpointWriter writer(store, 5);
  writer.create();
  std::vector<ShardItem> items;
  for (int64_t row = 0; row < 4; ++row)
    items.push_back({"t", Kind::parameter, t.shape(), {{row, 0}, {1, 2}}, t.slice(0, row, row + 1)});
  writer.commit(state_of(5), std::vector<std::string>{writer.write_shard(0, 1, items)});
  expect_bitwise(store.open(5, Check::full).read("t", Kind::parameter, device), t);
}

// Merges shards without the manifest, like a reader of safetensors.
std::map<std::string, Tensor> merged_shards(const std::string& folder, Device device) {
  std::map<std::string, Tensor> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto file = SafetensorsFile::open(entry.path().string());
    for (const TensorInfo& t : file.tensors())
      EXPECT_TRUE(all.emplace(t.name, file.read(t.name, device)).second) << t.name << " is in two shards";
  }
  return all;
}

TEST_F(Checkpoints, TensorNamesAreUniqueAcrossShards) {
  for (int ranks : {1, 2, 4}) {
    save(store, ranks, ranks, device);
    const auto all = merged_shards(store.path(ranks), device);
    int64_t bytes = 0, whole_model = 0;
    for (const auto& [name, tensor] : all) bytes += tensor.bytes();
    for (const auto& [key, tensor] : model_of(ranks, device)) whole_model += tensor.bytes();
    EXPECT_EQ(bytes, whole_model);
  }
  const Model model = model_of(4, device);
  const auto all = merged_shards(store.path(4), device);
  // The name of a split tensor ends with its slice in Python notation.
  expect_bitwise(all.at("main:embedding.weight[0:11,2:4]"),
                 slice(model.at({"embedding.weight", Kind::main}), {{0, 2}, {11, 2}}));
  expect_bitwise(all.at("experts.up[3:4,0:6,0:8]"),
                 slice(model.at({"experts.up", Kind::parameter}), {{3, 0, 0}, {1, 6, 8}}));
  expect_bitwise(all.at("state:router.bias"), model.at({"router.bias", Kind::state}));
  EXPECT_TRUE(all.contains("unused"));
}

TEST_F(Checkpoints, OlderShardsWithRepeatedNamesAreRead) {
  const Tensor t = random_bits({4, 2}, Dtype::f32, device, 3);
  const std::string path = store.path(5);
  std::filesystem::create_directories(path);
  Manifest manifest;
  manifest.run = state_of(5);
  TensorRecord record{"t", Kind::main, Dtype::f32, t.shape(), {}};
  for (int64_t i = 0; i < 2; ++i) {
    // The first shard has two pieces, of the first rows. The second shard has one piece, of the last row.
    const std::string file = cat("shard-0000", i, "-of-00002.safetensors");
    std::vector<NamedTensor> pieces{{"main:t", t.slice(0, 3 * i, 3 * i + 1)}};
    std::vector<Region> regions{{{3 * i, 0}, {1, 2}}};
    if (i == 0) pieces.push_back({"main:t#1", t.slice(0, 1, 3)}), regions.push_back({{1, 0}, {2, 2}});
    const SafetensorsResult written = write_safetensors(path + "/" + file, pieces);
    manifest.shards.push_back({file, written.bytes, written.digest});
    for (size_t p = 0; p < pieces.size(); ++p)
      record.pieces.push_back({static_cast<size_t>(i), pieces[p].name, regions[p], written.tensors[p]});
  }
  manifest.tensors.push_back(record);
  std::ofstream(path + "/manifest.json") << manifest_to_json(manifest);
  expect_bitwise(store.open(5, Check::full).read("t", Kind::main, device), t);
}

TEST_F(Checkpoints, ManifestKeepsThePositionOfTheRun) {
  save(store, 100, 2, device);
  const RunState run = store.open(100, Check::quick).manifest().run, expected = state_of(100);
  EXPECT_EQ(run.tokens, expected.tokens);
  EXPECT_EQ(run.seed, expected.seed);
  EXPECT_EQ(run.recipe, expected.recipe);
  EXPECT_EQ(run.data_position, expected.data_position);
  EXPECT_EQ(run.random_state, expected.random_state);
  EXPECT_EQ(run.layout, expected.layout);
}

TEST_F(Checkpoints, ManifestsOfOlderProgramsWithOtherMembersAreRead) {
  save(store, 100, 2, device);
  const std::string path = store.path(100) + "/manifest.json";
  const Json now = parse_json(read_bytes(path), "manifest");
  EXPECT_TRUE(now["content"].at("auto_choices").is_null()) << "older programs require this member";
  const auto expect_read = [&](const Json& content) {
    Json older = now;
    older["content"] = content;
    older["digest"] = data::digest_of(content.dump()).to_string();
    std::ofstream(path, std::ios::trunc) << older.dump(1);
    expect_holds(store.open(100, Check::full), 100, device);
  };
  Json content = now["content"];
  content["auto_choices"] = {{"chunks", 4}};
  expect_read(content);
  content.erase("auto_choices");
  expect_read(content);
}

TEST_F(Checkpoints, ShardsAreOrdinarySafetensorsFiles) {
  save(store, 100, 1, device);
  const SafetensorsFile file = SafetensorsFile::open(shard(100, "00000-of-00001"));
  EXPECT_EQ(file.metadata().at("step"), "100");
  expect_bitwise(file.read("experts.up", device), model_of(100, device).at({"experts.up", Kind::parameter}));
  EXPECT_TRUE(file.contains("moment1:experts.up"));
}

TEST_F(Checkpoints, RetentionKeepsTheLastCheckpoints) {
  for (int64_t step = 10; step <= 60; step += 10) save(store, step, 1, device);
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{40, 50, 60}));
  EXPECT_EQ(read_bytes(folder / "checkpoints/latest"), "step-00000060\n");
  EXPECT_TRUE(warnings.empty());
}

TEST_F(Checkpoints, KeepZeroKeepsAll) {
  options.keep = 0;
  const CheckpointStore all(folder / "all", options);
  for (int64_t step = 1; step <= 5; ++step) save(all, step, 1, device);
  EXPECT_EQ(all.steps().size(), 5u);
}

TEST_F(Checkpoints, NewSavesAreTheNewestAfterAReturnToAnEarlierStep) {
  for (int64_t step : {100, 200, 300}) save(store, step, 1, device);
  save(store, 150, 1, device);  // a run resumed from step 100
  EXPECT_EQ(store.find(automatic, Check::full)->step(), 150);
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{150, 200, 300}));
  save(store, 200, 1, device);  // saved again: replaces the first checkpoint of step 200
  EXPECT_EQ(store.find(automatic, Check::full)->step(), 200);
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{150, 200, 300}));
  save(store, 250, 1, device);
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{150, 200, 250}));
}

TEST_F(Checkpoints, AbandonedCheckpointsAreNotFoundButKept) {
  for (int64_t step : {1, 2, 3}) save(store, step, 1, device);
  EXPECT_EQ(store.abandon_after(3), std::vector<std::string>{});
  EXPECT_EQ(store.abandon_after(1),
            (std::vector<std::string>{store.path(2) + ".abandoned", store.path(3) + ".abandoned"}));
  expect_holds(*store.find(automatic, Check::full), 1, device);
  EXPECT_EQ(warnings, std::vector<std::string>{}) << "the file latest names step 1";
  save(store, 2, 1, device);
  store.clean();
  expect_holds(Checkpoint::open(store.path(3) + ".abandoned", Check::full), 3, device);
  EXPECT_EQ(store.abandon_after(0).size(), 2u) << "expected steps 1 and 2; step 2 was abandoned before and saved again";
  EXPECT_FALSE(store.find(automatic, Check::quick));
  EXPECT_EQ(warnings, std::vector<std::string>{}) << "there is no file latest";
}

TEST_F(Checkpoints, ResumeIsAutoNoneOrAStep) {
  EXPECT_FALSE(store.find(automatic, Check::full));
  EXPECT_TRUE(warnings.empty());
  save(store, 100, 1, device);
  save(store, 200, 1, device);
  EXPECT_FALSE(store.find(Resume::parse("none"), Check::full));
  EXPECT_EQ(store.find(Resume::parse("auto"), Check::full)->step(), 200);
  EXPECT_EQ(store.find(Resume::parse("100"), Check::full)->step(), 100);
  expect_error(ExitCode::data, {"has no checkpoint of step 150, expected one of the steps 100, 200"},
               [&] { store.find(Resume::parse("150"), Check::full); });
  for (const char* text : {"", "Auto", "-1", "1e3", "10 ", "99999999999999999999"}) {
    expect_error(ExitCode::usage, {cat("resume is '", text, "', expected auto, none or a step")},
                 [&] { Resume::parse(text); });
  }
}

TEST_F(Checkpoints, StepOfMoreThanTenDigitsWorks) {
  save(store, 123'456'789'012, 1, device);
  EXPECT_EQ(store.find(automatic, Check::full)->step(), 123'456'789'012);
}

TEST_F(Checkpoints, BugsOfTheWriterAreFoundBeforeTheRename) {
  const Tensor t = random_bits({4, 2}, Dtype::f32, device, 3);
  const auto attempt = [&](const std::vector<std::vector<ShardItem>>& shards) {
    CheckpointWriter writer(store, 5);
    writer.create();
    std::vector<std::string> parts;
    for (size_t i = 0; i < shards.size(); ++i) {
      parts.push_back(writer.write_shard(static_cast<int>(i), static_cast<int>(shards.size()), shards[i]));
    }
    std::string message;
    try {
      writer.commit(state_of(5), parts);
    } catch (const std::logic_error& error) {
      message = error.what();
    }
    writer.discard();
    return message;
  };
  const ShardItem upper{"t", Kind::main, {4, 2}, {{0, 0}, {2, 2}}, t.slice(0, 0, 2)};
  const ShardItem lower{"t", Kind::main, {4, 2}, {{2, 0}, {2, 2}}, t.slice(0, 2, 4)};
  const ShardItem middle{"t", Kind::main, {4, 2}, {{1, 0}, {2, 2}}, t.slice(0, 1, 3)};
  const ShardItem other{"t", Kind::main, {5, 2}, {{2, 0}, {2, 2}}, t.slice(0, 2, 4)};
  EXPECT_NE(attempt({{upper}}).find("hold 4 elements (number of pieces: 1), expected 8 elements"), std::string::npos);
  EXPECT_NE(attempt({{upper}, {middle}}).find("is written twice: [0, 0]+[2, 2] and [1, 0]+[2, 2]"), std::string::npos);
  EXPECT_NE(attempt({{upper}, {other}}).find("is f32 [4, 2] on one rank and f32 [5, 2] on another"), std::string::npos);
  EXPECT_EQ(attempt({{upper}, {lower}}), "");
  EXPECT_EQ(store.steps(), std::vector<int64_t>{5});

  CheckpointWriter writer(store, 6);
  writer.create();
  const std::string part = writer.write_shard(0, 2, std::vector<ShardItem>{upper});
  EXPECT_THROW(writer.commit(state_of(6), std::vector<std::string>{part}), std::logic_error);
  EXPECT_THROW(writer.commit(state_of(6), std::vector<std::string>{part, part}), std::logic_error);
  EXPECT_THROW(writer.commit(state_of(7), {}), std::logic_error);
}

// Returns the paths of the pages in the folder of a checkpoint, sorted.
std::vector<std::string> pages_of(const std::string& folder) {
  std::vector<std::string> pages;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("tensors-")) pages.push_back(entry.path().string());
  std::ranges::sort(pages);
  return pages;
}

TEST_F(Checkpoints, LargeManifestsAreDividedIntoPages) {
  save(store, 1, 4, device);
  EXPECT_TRUE(pages_of(store.path(1)).empty());
  options.page_pieces = 5;
  const CheckpointStore paged(folder / "paged", options);
  save(paged, 1, 4, device);
  // The first five of the seven tensors are divided into four pieces each. The pages have 4, 4, 4, 4, 5 and 1 pieces.
  EXPECT_EQ(pages_of(paged.path(1)).size(), 6u);
  expect_holds(*paged.find(automatic, Check::full), 1, device);
  EXPECT_TRUE(warnings.empty());
  const Checkpoint checkpoint = paged.open(1, Check::quick);
  for (const char* name : {"", "a", "embedding.weightless", "zz"}) EXPECT_FALSE(checkpoint.contains(name, Kind::main));
  EXPECT_FALSE(checkpoint.contains("embedding.weight", Kind::moment1));
  const Checkpoint whole = store.open(1, Check::quick);
  ASSERT_EQ(checkpoint.manifest().tensors.size(), whole.manifest().tensors.size());
  for (size_t i = 0; i < whole.manifest().tensors.size(); ++i) {
    EXPECT_EQ(checkpoint.manifest().tensors[i].name, whole.manifest().tensors[i].name);
    EXPECT_EQ(checkpoint.manifest().tensors[i].pieces.size(), whole.manifest().tensors[i].pieces.size());
  }
}

TEST_F(Checkpoints, ReaderReadsOnlyThePagesOfItsTensors) {
  options.page_pieces = 1;
  const CheckpointStore paged(folder / "paged", options);
  save(paged, 1, 4, device);
  const std::vector<std::string> pages = pages_of(paged.path(1));
  ASSERT_EQ(pages.size(), 7u);
  Checkpoint checkpoint = Checkpoint::open_read(paged.path(1), Checkpoint::read_manifest(paged.path(1)));
  for (size_t i = 1; i < pages.size(); ++i) flip_bit(pages[i], 20);
  EXPECT_NO_THROW(checkpoint.read("embedding.weight", Kind::parameter, device));
  expect_error(ExitCode::data, {pages.back(), "is damaged: digest "},
               [&] { checkpoint.read("unused", Kind::parameter, device); });
  expect_error(ExitCode::data, {pages[1], "is damaged"}, [&] { checkpoint.verify({.index = 1, .of = 7}); });
  for (int i = 0; i < 2; ++i)  // the second call must not return the pages before the damaged page
    expect_error(ExitCode::data, {pages[1], "is damaged"}, [&] { checkpoint.manifest(); });
  std::filesystem::remove(pages[2]);
  expect_error(ExitCode::data, {pages[2], "is missing (the file lists tensors)"}, [&] { paged.open(1, Check::quick); });
}

TEST_F(Checkpoints, SavesReadOlderManifestsOnce) {
  const CheckpointStore all(folder / "all", {.keep = 0, .fault = {}});
  save(all, 1, 1, device);
  const std::string path = all.path(1) + "/manifest.json";
  const auto long_ago = std::filesystem::last_write_time(path) - std::chrono::hours(1);
  const auto replace_text = [&](char with, auto when) {
    std::string text = read_bytes(path);
    std::fstream(path, std::ios::in | std::ios::out) << std::string(text.size(), with);
    std::filesystem::last_write_time(path, when);
  };
  std::filesystem::last_write_time(path, long_ago);
  EXPECT_EQ(all.next_sequence(), 2);
  replace_text('x', long_ago);
  EXPECT_EQ(all.next_sequence(), 2) << "the manifest is not read again";
  replace_text('y', long_ago + std::chrono::seconds(1));
  EXPECT_EQ(all.next_sequence(), 1) << "the manifest has changed, and its checkpoint is bad";
}

TEST_F(Checkpoints, PiecesInAPinwheelAreAccepted) {
  const Tensor t = random_bits({6, 6}, Dtype::f32, device, 9);
  // A pinwheel, which no straight cut divides, and a column beside it.
  const std::vector<Region> regions{{{0, 0}, {2, 3}}, {{0, 3}, {3, 2}}, {{3, 2}, {3, 3}},
                                    {{2, 0}, {4, 2}}, {{2, 2}, {1, 1}}, {{0, 5}, {6, 1}}};
  CheckpointWriter writer(store, 5);
  writer.create();
  std::vector<ShardItem> items;
  for (const Region& region : regions) items.push_back({"t", Kind::main, t.shape(), region, slice(t, region)});
  writer.commit(state_of(5), std::vector<std::string>{writer.write_shard(0, 1, items)});
  expect_bitwise(store.open(5, Check::full).read("t", Kind::main, device), t);
}

TEST_F(Checkpoints, AreVerifiedInShares) {
  save(store, 1, 2, device);
  flip_bit(shard(1, "00001-of-00002"), 600);
  Checkpoint checkpoint = store.open(1, Check::quick);
  checkpoint.verify({.index = 0, .of = 2});
  checkpoint.verify({.index = 2, .of = 3});  // a part of the other shard
  expect_error(ExitCode::data, {"shard-00001-of-00002", "damaged"}, [&] { checkpoint.verify({.index = 1, .of = 2}); });
}

TEST_F(Checkpoints, EveryPieceIsVerifiedOnceIfSharesOutnumberShards) {
  save(store, 1, 2, device);
  const std::string damaged = shard(1, "00001-of-00002");
  const SafetensorsFile file = SafetensorsFile::open(damaged);
  ASSERT_GT(file.tensors().size(), 3u);
  for (const size_t shares : {size_t{3}, size_t{5}, size_t{16}}) {
    std::set<size_t> finders;
    for (const TensorInfo& stored : file.tensors()) {
      if (stored.begin == stored.end) continue;
      flip_bit(damaged, stored.end - 1);
      size_t found = 0;
      for (size_t index = 0; index < shares; ++index) {
        Checkpoint checkpoint = store.open(1, Check::quick);
        try {
          checkpoint.verify({.index = index, .of = shares});
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ExitCode::data);
          EXPECT_NE(std::string(error.what()).find("' is damaged: digest "), std::string::npos) << error.what();
          finders.insert(index);
          ++found;
        }
      }
      EXPECT_EQ(found, 1u) << stored.name << " with " << shares << " shares";
      flip_bit(damaged, stored.end - 1);
    }
    EXPECT_EQ(finders.size() > 1, shares > 3) << "one of 3 shares has the whole shard; more shares divide it";
  }
}

TEST_F(Checkpoints, ReadsAfterSkipDigestsDoNotVerify) {
  save(store, 1, 2, device);
  Checkpoint checkpoint = store.open(1, Check::quick), trusted = store.open(1, Check::quick);
  trusted.skip_digests();
  const std::string damaged = shard(1, "00001-of-00002");
  for (const TensorInfo& stored : SafetensorsFile::open(damaged).tensors())
    if (stored.begin < stored.end) flip_bit(damaged, stored.end - 1);
  expect_error(ExitCode::data, {"experts.up", " is damaged: digest "},
               [&] { checkpoint.read("experts.up", Kind::parameter, device); });
  EXPECT_NO_THROW(trusted.read("experts.up", Kind::parameter, device));
}

TEST_F(Checkpoints, SharesBeyondTheShardsReadOnlyTheirPages) {
  options.page_pieces = 1;
  const CheckpointStore paged(folder / "paged", options);
  save(paged, 1, 2, device);
  const std::vector<std::string> pages = pages_of(paged.path(1));
  ASSERT_GT(pages.size(), 6u);
  Checkpoint checkpoint = Checkpoint::open_read(paged.path(1), Checkpoint::read_manifest(paged.path(1)));
  for (size_t i = 0; i < pages.size(); ++i)
    if (i % 6 != 5) flip_bit(pages[i], 20);
  EXPECT_NO_THROW(checkpoint.verify({.index = 5, .of = 6}));
  flip_bit(pages[5], 20);
  Checkpoint again = Checkpoint::open_read(paged.path(1), Checkpoint::read_manifest(paged.path(1)));
  expect_error(ExitCode::data, {pages[5], "is damaged"}, [&] { again.verify({.index = 5, .of = 6}); });
}

TEST_F(Checkpoints, PieceOfAPagedManifestIsVerifiedOnceIfSharesOutnumberShards) {
  options.page_pieces = 1;
  const CheckpointStore paged(folder / "paged", options);
  save(paged, 1, 2, device);
  const std::string damaged = paged.path(1) + "/shard-00001-of-00002.safetensors";
  flip_bit(damaged, SafetensorsFile::open(damaged).tensors().back().end - 1);
  int found = 0;
  for (size_t index = 0; index < 6; ++index) {
    Checkpoint checkpoint = paged.open(1, Check::quick);
    try {
      checkpoint.verify({.index = index, .of = 6});
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("' is damaged: digest "), std::string::npos) << error.what();
      ++found;
    }
  }
  EXPECT_EQ(found, 1);
}

TEST_F(Checkpoints, FileWorkReportsProgressOfSavesChecksAndReads) {
  std::set<std::string> moved;
  int64_t bytes = 0;
  options.keep = 1;
  const FileWork work = options.work;
  const auto phase = work.announce("testing");
  work.on_move([&](uint64_t) {
    moved.insert(std::filesystem::path(work.now()->file).filename().string());
    bytes = work.now()->bytes;
  });
  CheckpointStore watched(folder / "watched", options);
  save(watched, 1, 2, device);
  EXPECT_TRUE(moved.contains("shard-00001-of-00002.safetensors"));
  EXPECT_TRUE(moved.contains("manifest.json"));
  moved.clear();
  Checkpoint checkpoint = watched.open(1, Check::full);
  EXPECT_TRUE(moved.contains("shard-00001-of-00002.safetensors"));
  const auto file = std::filesystem::file_size(watched.path(1) + "/shard-00001-of-00002.safetensors");
  EXPECT_EQ(bytes, static_cast<int64_t>(file)) << "progress ends at the size of the last shard";
  moved.clear();
  checkpoint.read("experts.up", Kind::parameter, device);
  EXPECT_TRUE(moved.contains("shard-00000-of-00002.safetensors"));
}

TEST_F(Checkpoints, InspectionShowsTotalsAndTensors) {
  save(store, 100, 2, device);
  const Checkpoint checkpoint = store.open(100, Check::quick);
  const std::string text = describe(checkpoint);
  for (const char* part :
       {"step 100, 409,600 tokens", "save number 1", R"(layout {"dp":2,"ep":2})", "in 2 shards",
        "moment2         1 tensor                   192 elements                1,536 bytes",
        "experts.up        moment1    f32   [4, 6, 8]", "768 bytes  2 pieces", "unused            parameter"}) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in\n" << text;
  }
  const std::string json = describe_json(checkpoint);
  EXPECT_NE(json.find("\"elements\": 280"), std::string::npos) << json;  // elements of the parameters: 88 + 192
}

TEST_F(Checkpoints, InspectionSaysWhereTheRunWouldBegin) {
  EXPECT_EQ(describe(store.scan(Check::full)), "there is no checkpoint: the run would start from step 0\n");
  save(store, 100, 1, device);
  const std::string path = store.path(100);
  EXPECT_EQ(describe(store.scan(Check::full)), cat("good  ", path, "\nthe run would continue from ", path, "\n"));
  std::filesystem::remove(path + "/manifest.json");
  EXPECT_EQ(describe(store.scan(Check::full)), "no checkpoint is good: the run cannot continue\n");
}

}  // namespace
}  // namespace hexad::io
