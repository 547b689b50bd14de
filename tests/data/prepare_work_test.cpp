// Preparation on several threads, preparation after interruptions, and preparation of conversations.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include "framework/data/prepare.h"
#include "framework/data/token_dataset.h"
#include "framework/data/tokenizer.h"
#include "tests/data/corpus.h"

namespace hexad::data {

using base::cat;
namespace {

using Texts = std::vector<std::string>;

TEST(Prepare, NumberOfWorkersDoesNotChangeTheFiles) {
  TextCorpus f;
  f.options.split.longest_bytes = 100;
  f.options.shard_bytes = 10000;
  std::map<std::string, std::string> first;
  for (const int workers : {1, 2, 7}) {
    f.options.workers = workers;
    f.options.output = f.folder / cat("out-", workers);
    prepare(f.options);
    auto contents = contents_of(f.options.output);
    EXPECT_EQ(contents.erase("summary.json"), 1u);
    EXPECT_EQ(contents.size(), 3u) << "the output folder must contain no other files";
    if (first.empty()) first = contents;
    EXPECT_TRUE(contents == first) << workers;
  }
}

// Returns a JSON object with a text and a conversation. The text is empty if i is a multiple of ten.
std::string json_object(int i) {
  return cat("{\"text\": \"", i % 10 == 0 ? "" : cat("text ", i, " of ", i * 7 % 13), "\", \"prompt\": \"What is ", i,
             "?\", \"completion\": \"It is ", i, ".\"}");
}

std::string json_lines(int begin, int end) {
  std::string lines;
  for (int i = begin; i < end; ++i) lines += json_object(i) + (i % 20 == 0 ? "\n\n" : "\n");
  return lines;
}

std::string json_list(int begin, int end) {
  std::string list = cat("[", json_object(begin));
  for (int i = begin + 1; i < end; ++i) list += cat(",\n", json_object(i));
  return list + "]";
}

TEST(Prepare, NumberOfWorkersDoesNotChangeTheDocumentsOfJson) {
  TextCorpus f;
  f.folder.write("json/a.jsonl", json_lines(0, 400));
  f.folder.write("json/b.json", json_list(400, 500));
  f.folder.write("json/c.jsonl", json_lines(500, 900));
  f.options.inputs = {f.folder / "json"};
  f.options.shard_bytes = 2000;
  for (const char* form : {"", "plain"}) {
    f.options.chat_form = form;
    std::map<std::string, std::string> first;
    for (const int workers : {1, 2, 7}) {
      f.options.workers = workers;
      f.options.output = f.folder / cat("out-", form, "-", workers);
      const PrepareSummary summary = prepare(f.options);
      EXPECT_EQ(summary.train.documents + summary.heldout.documents, *form == '\0' ? 810 : 900);
      EXPECT_EQ(summary.empty_documents, *form == '\0' ? 90 : 0);
      auto contents = contents_of(f.options.output);
      contents.erase("summary.json");
      if (first.empty()) first = contents;
      EXPECT_TRUE(contents == first) << form << " " << workers;
    }
  }
}

TEST(Prepare, NumberOfWorkersDoesNotChangeTheProblems) {
  TextCorpus f;
  std::string lines = json_lines(0, 300);
  for (int i = 0; i < 30; ++i) lines += cat("{\"id\": ", i, "}\n") + json_lines(0, 9);
  f.options.inputs = {f.folder.write("json/a.jsonl", lines), f.folder.write("json/b.txt", "caf\xe9"),
                      f.folder.write("json/c.jsonl", "[]\n" + json_lines(0, 3))};
  f.options.shard_bytes = 500;
  std::string first;
  for (const int workers : {1, 2, 7}) {
    f.options.workers = workers;
    const std::string problems = message_of(ExitCode::data, [&] { prepare(f.options); });
    expect_contains(problems, "13 problems of the input:");
    expect_contains(problems, "a.jsonl: 20 more objects have problems\n");
    expect_contains(problems, "c.jsonl:1: is not a JSON object");
    if (first.empty()) first = problems;
    EXPECT_EQ(problems, first);
  }
}

// Interrupts a preparation when nearly half of its text is encoded and some shards are complete.
struct Interrupted {
  TextCorpus corpus;

  Interrupted() {
    corpus.options.split.longest_bytes = 700;
    corpus.options.shard_bytes = 2000;
    interrupt();
  }
  void interrupt() {
    EXPECT_THROW(prepare(corpus.options,
                         [](const PrepareProgress& p) {
                           if (p.stage == "encoding" && 2 * p.done_bytes >= p.total_bytes - 4000) throw Stop();
                         }),
                 Stop);
  }
  std::map<std::string, std::string> uninterrupted() {
    PrepareOptions options = corpus.options;
    options.output = corpus.folder / "whole";
    prepare(options);
    return contents_of(options.output);
  }
  struct Stop {};
};

TEST(Prepare, ContinuesAfterAnInterruptionWithTheSameResult) {
  Interrupted f;
  ASSERT_TRUE(std::filesystem::exists(f.corpus.folder / "out/unfinished/journal.json"));
  EXPECT_FALSE(std::filesystem::exists(f.corpus.folder / "out/train.hxd"));
  std::vector<std::string> stages;
  const PrepareSummary summary = prepare(f.corpus.options, [&](const PrepareProgress& p) {
    if (stages.empty() || stages.back() != p.stage) stages.emplace_back(p.stage);
  });
  EXPECT_EQ(stages, (Texts{"reading", "encoding"})) << "the tokenizer is not trained again";
  EXPECT_GT(summary.resumed_documents, 10);
  EXPECT_LT(summary.resumed_documents, summary.train.documents + summary.heldout.documents);
  auto resumed = contents_of(f.corpus.options.output), whole = f.uninterrupted();
  for (auto* contents : {&resumed, &whole}) contents->erase("summary.json");
  EXPECT_TRUE(resumed == whole);
  EXPECT_EQ(resumed.count("unfinished"), 0u);
}

TEST(Prepare, DamagedShardIsEncodedAgain) {
  Interrupted f;
  const std::string shard = f.corpus.folder / "out/unfinished/shard-2-train.hxd";
  ASSERT_TRUE(std::filesystem::exists(shard));
  std::filesystem::resize_file(shard, 50);
  const PrepareSummary summary = prepare(f.corpus.options);
  EXPECT_GT(summary.resumed_documents, 0);
  EXPECT_LT(summary.resumed_documents, 30);
  ASSERT_FALSE(summary.warnings.empty());
  expect_contains(summary.warnings.back(), shard);
  expect_contains(summary.warnings.back(),
                  cat("; the first ", summary.resumed_documents, " documents of an interrupted run remained, ",
                      "and all later documents were encoded again"));
  EXPECT_TRUE(contents_of(f.corpus.options.output).at("train.hxd") == f.uninterrupted().at("train.hxd"));
}

TEST(Prepare, DamagedTokenizerOrJournalDropsTheInterruptedPreparation) {
  for (const char* name : {"out/unfinished/tokenizer.json", "out/unfinished/journal.json"}) {
    Interrupted f;
    f.corpus.folder.write(name, "{}");
    const PrepareSummary summary = prepare(f.corpus.options);
    EXPECT_EQ(summary.resumed_documents, 0);
    ASSERT_FALSE(summary.warnings.empty());
    expect_contains(summary.warnings.back(), f.corpus.folder / name + ": ");
    expect_contains(summary.warnings.back(), "; all documents of an interrupted run were encoded again");
    EXPECT_TRUE(contents_of(f.corpus.options.output).at("train.hxd") == f.uninterrupted().at("train.hxd"));
  }
}

TEST(Prepare, InterruptedPreparationOfAnotherRequestIsReplacedOnlyByForce) {
  Interrupted f;
  const auto shards = contents_of(f.corpus.folder / "out/unfinished");
  const PrepareOptions asked = f.corpus.options;
  f.corpus.options.vocab_size = 300;
  const auto message = [&] { return message_of(ExitCode::usage, [&] { prepare(f.corpus.options); }); };
  expect_contains(message(), "out/unfinished: an interrupted `hexad prepare` has encoded ");
  expect_contains(message(),
                  " documents here, but from different text or with different options. Differences: --vocab "
                  "400 -> 300. To continue that run, restore its text and options. To start over, choose another "
                  "--output, or discard these documents with --force");
  f.corpus.options = asked;
  const std::string text = book(100, 200);
  f.corpus.folder.write("text/b.txt", text + "more");
  expect_contains(message(), "Differences: the text. ");
  EXPECT_TRUE(contents_of(f.corpus.folder / "out/unfinished") == shards);

  f.corpus.folder.write("text/b.txt", text);
  std::filesystem::copy(f.corpus.folder / "out", f.corpus.folder / "continued",
                        std::filesystem::copy_options::recursive);
  f.corpus.options.output = f.corpus.folder / "continued";
  EXPECT_GT(prepare(f.corpus.options).resumed_documents, 10);

  f.corpus.options = asked;
  f.corpus.folder.write("text/b.txt", book(100, 201));
  f.corpus.options.force = true;
  EXPECT_EQ(prepare(f.corpus.options).resumed_documents, 0);
  EXPECT_TRUE(contents_of(f.corpus.options.output).at("train.hxd") == f.uninterrupted().at("train.hxd"));
}

TEST(Prepare, FailedReadKeepsTheFinishedShards) {
  Interrupted f;
  f.corpus.options.workers = 1;
  const auto remove = [&](const PrepareProgress& p) {
    if (p.stage == "encoding") std::filesystem::remove(f.corpus.folder / "text/b.txt");
  };
  expect_contains(message_of(ExitCode::data, [&] { prepare(f.corpus.options, remove); }), "b.txt: cannot be opened");
  f.corpus.folder.write("text/b.txt", book(100, 200));
  EXPECT_GT(prepare(f.corpus.options).resumed_documents, 10);
  EXPECT_TRUE(contents_of(f.corpus.options.output).at("train.hxd") == f.uninterrupted().at("train.hxd"));
}

TEST(Prepare, SeveralInterruptionsAreContinued) {
  Interrupted f;
  f.interrupt();
  EXPECT_GT(prepare(f.corpus.options).resumed_documents, 10);
  EXPECT_TRUE(contents_of(f.corpus.options.output).at("train.hxd") == f.uninterrupted().at("train.hxd"));
}

TEST(Prepare, FileThatChangesAfterReadingIsRefused) {
  Interrupted f;
  const auto change = [&](const PrepareProgress& p) {
    if (p.stage == "encoding" && p.done_bytes == 0) f.corpus.folder.write("text/b.txt", book(100, 199) + "changed");
  };
  expect_contains(message_of(ExitCode::data, [&] { prepare(f.corpus.options, change); }),
                  "text/b.txt: has changed since it was first read");
  EXPECT_FALSE(std::filesystem::exists(f.corpus.folder / "out/unfinished"))
      << "shards of the interrupted preparation may contain other text";
}

TEST(Prepare, LeftoverShardsOfAFinishedDatasetAreRemoved) {
  Interrupted f;
  const std::string shards = f.corpus.folder / "out/unfinished", aside = f.corpus.folder / "aside";
  std::filesystem::copy(shards, aside, std::filesystem::copy_options::recursive);
  prepare(f.corpus.options);
  std::filesystem::rename(aside, shards);
  EXPECT_TRUE(prepare(f.corpus.options).skipped);
  EXPECT_FALSE(std::filesystem::exists(shards));
}

TEST(Prepare, OtherFilesInTheFolderOfShardsAreKept) {
  Interrupted f;
  f.corpus.folder.write("out/unfinished/notes.txt", "notes of a user");
  f.corpus.folder.write("text/b.txt", book(100, 201));
  f.corpus.options.force = true;
  prepare(f.corpus.options);
  EXPECT_EQ(contents_of(f.corpus.folder / "out/unfinished"),
            (std::map<std::string, std::string>{{"notes.txt", "notes of a user"}}));
}

TEST(Prepare, PreparationWithoutTheChatFormOfTheDatasetIsRefused) {
  TextCorpus f;
  f.options.inputs = {f.folder.write("chat.jsonl", R"({"text": "one", "prompt": "A", "completion": "B"})")};
  f.options.tokenizer = "bytes";
  f.options.heldout = 0;
  f.options.chat_form = "plain";
  prepare(f.options);
  f.options.chat_form = "";
  expect_contains(message_of(ExitCode::usage, [&] { prepare(f.options); }),
                  "Differences: --chat-form \"plain\" is missing");
}

TEST(Prepare, ConversationsGetALossMask) {
  TextCorpus f;
  f.options.inputs = {f.folder.write("chat.jsonl", R"({"messages": [{"role": "user", "content": "Hi"},)"
                                                   R"( {"role": "assistant", "content": "Yo"}]})"
                                                   "\n"
                                                   R"({"prompt": "A", "completion": "B"})")};
  f.options.tokenizer = "bytes";
  f.options.heldout = 0;
  f.options.chat_form = "plain";
  prepare(f.options);
  const TokenDataset train(f.folder / "out/train.hxd");
  ASSERT_TRUE(train.has_loss_mask());
  ASSERT_EQ(train.documents(), 2);
  std::vector<int32_t> ids(train.offsets()[1]);
  std::vector<uint8_t> mask(ids.size());
  train.read_ids(0, ids);
  train.read_loss_mask(0, mask);
  std::string learned;
  for (size_t i = 0; i < ids.size(); ++i)
    if (mask[i] != 0) learned += ids[i] < 256 ? std::string(1, static_cast<char>(ids[i])) : "<end>";
  EXPECT_EQ(learned, "Yo\n<end>");
  EXPECT_EQ(load_tokenizer(f.folder / "out/tokenizer.json")->decode(ids), "user: Hi\nassistant: Yo\n");

  f.options.chat_form = "raw";
  expect_contains(message_of(ExitCode::usage, [&] { prepare(f.options); }),
                  "Differences: --chat-form \"plain\" -> \"raw\"");
  f.options.inputs.push_back(f.folder.write("words.txt", "words"));
  expect_contains(message_of(ExitCode::data, [&] { prepare(f.options); }),
                  "words.txt: is text, but --chat-form expects conversations");
  f.options.inputs.back() = f.folder.write("cut.json", "[{\"messages\": [");
  expect_contains(message_of(ExitCode::data, [&] { prepare(f.options); }),
                  "cut.json: has no conversation for --chat-form; expected JSON lines, or a list of objects such as "
                  "{\"messages\": [...]}; is the file truncated or damaged?");
  f.options.chat_form = "unknown";
  expect_contains(message_of(ExitCode::usage, [&] { prepare(f.options); }), "--chat-form unknown is unknown");
}

// The lock is on a file, because NFS grants no exclusive lock on a folder.
TEST(Prepare, RefusesAFolderToWhichAnotherProcessWrites) {
  TextCorpus f;
  const std::string folder = f.folder / "out/unfinished";
  std::filesystem::create_directories(folder);
  const int other = ::open((folder + "/lock").c_str(), O_RDWR | O_CREAT, 0666);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  expect_contains(message_of(ExitCode::usage, [&] { prepare(f.options); }),
                  "out/unfinished: another `hexad prepare` writes to this --output");
  ::close(other);
  EXPECT_FALSE(prepare(f.options).skipped);
}

}  // namespace
}  // namespace hexad::data
