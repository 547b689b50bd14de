#include "framework/data/prepare.h"

#include <gtest/gtest.h>

#include "framework/data/input_files.h"
#include "framework/data/token_dataset.h"
#include "framework/data/tokenizer.h"
#include "tests/data/corpus.h"

namespace hexad::data {

using namespace base;
namespace {

TEST(Prepare, WrittenFilesMatchTheSummary) {
  TextCorpus f;
  const PrepareSummary summary = prepare(f.options);
  EXPECT_EQ(summary.files, 2);
  EXPECT_EQ(summary.vocab_size, 400);
  EXPECT_FALSE(summary.skipped);
  EXPECT_GT(summary.bytes_per_token(), 2.5);
  const std::string text = book(0, 100) + book(100, 200);
  EXPECT_EQ(summary.train.text_bytes + summary.heldout.text_bytes, static_cast<int64_t>(text.size()));
  const TokenDataset train(f.folder / "out/train.hxd"), heldout(f.folder / "out/heldout.hxd");
  EXPECT_EQ(train.documents(), summary.train.documents);
  EXPECT_EQ(train.tokens(), summary.train.tokens);
  EXPECT_EQ(heldout.text_bytes(), summary.heldout.text_bytes);
  EXPECT_EQ(heldout.fingerprint().to_string(), summary.heldout.fingerprint);
  EXPECT_NEAR(static_cast<double>(heldout.documents()) / static_cast<double>(train.documents() + heldout.documents()),
              0.1, 0.08);
  // The tokens of the first document decode to a part of the text.
  const auto tokenizer = load_tokenizer(f.folder / "out/tokenizer.json");
  std::vector<int32_t> ids(train.offsets()[1]);
  train.read_ids(0, ids);
  EXPECT_EQ(ids.back(), tokenizer->end_of_document());
  EXPECT_TRUE(text.starts_with(tokenizer->decode(ids)) || text.find(tokenizer->decode(ids)) != std::string::npos);
}

TEST(Prepare, SameInputGivesTheSameBytes) {
  TextCorpus a, b;
  prepare(a.options), prepare(b.options);
  for (const auto name : {tokenizer_file_name, train_file_name, heldout_file_name}) {
    EXPECT_EQ(read_file(cat(a.options.output, "/", name)), read_file(cat(b.options.output, "/", name))) << name;
  }
}

TEST(Prepare, SecondRunSkipsUnchangedInput) {
  TextCorpus f;
  const PrepareSummary first = prepare(f.options);
  const PrepareSummary second = prepare(f.options);
  EXPECT_TRUE(second.skipped);
  EXPECT_EQ(second.train, first.train);
  EXPECT_EQ(second.heldout, first.heldout);
  EXPECT_EQ(second.vocab_size, first.vocab_size);

  std::filesystem::resize_file(f.folder / "out/heldout.hxd", 200);
  EXPECT_FALSE(prepare(f.options).skipped) << "a damaged dataset is prepared again";
  f.options.force = true;
  EXPECT_TRUE(prepare(f.options).skipped) << "there is nothing to replace";
  f.options.vocab_size = 300;
  EXPECT_FALSE(prepare(f.options).skipped);
  EXPECT_TRUE(prepare(f.options).skipped);
  f.folder.write("text/b.txt", book(100, 201));
  EXPECT_FALSE(prepare(f.options).skipped);
  f.folder.write("out/summary.json", "{}");
  EXPECT_FALSE(prepare(f.options).skipped);
  EXPECT_TRUE(prepare(f.options).skipped);
}

TEST(Prepare, DoesNotReplaceAnotherDataset) {
  TextCorpus f;
  const PrepareSummary first = prepare(f.options);
  const auto before = contents_of(f.options.output);
  const auto refusal = [&] {
    const std::string text = message_of(ExitCode::usage, [&] { prepare(f.options); });
    EXPECT_EQ(contents_of(f.options.output), before);
    return text;
  };
  f.options.vocab_size = 300;
  f.options.split.longest_bytes = 3000;
  const std::string text = refusal();
  expect_contains(text, cat(f.options.output, ": contains a different dataset, made 20"));
  expect_contains(text, cat(" from ", f.options.inputs.front(), " (2 files): ", first.train.tokens, " training and ",
                            first.heldout.tokens, " held-out tokens, vocabulary 400. Differences: "));
  expect_contains(text, "--split-bytes 2000 -> 3000, --vocab 400 -> 300.");
  expect_contains(text, "Choose another --output; --force replaces the dataset, but runs");

  f.options.vocab_size = 400;
  f.options.split.longest_bytes = 2000;
  EXPECT_TRUE(prepare(f.options).skipped);
  f.folder.write("text/b.txt", book(100, 201));
  expect_contains(refusal(), "Differences: the text.");
}

TEST(Prepare, OptionsWithoutEffectDoNotMakeAnotherDataset) {
  TextCorpus f;
  f.options.tokenizer = "bytes";
  prepare(f.options);
  f.options.vocab_size = 300;
  f.options.split.separator = "%";
  EXPECT_TRUE(prepare(f.options).skipped);
  f.options.tokenizer = "bpe";
  expect_contains(message_of(ExitCode::usage, [&] { prepare(f.options); }),
                  "Differences: --tokenizer \"bytes\" -> \"bpe\".");
}

TEST(Prepare, DoesNotReplaceADatasetWithoutASummary) {
  TextCorpus f;
  prepare(f.options);
  std::filesystem::remove(f.folder / "out/summary.json");
  const std::string text = message_of(ExitCode::usage, [&] { prepare(f.options); });
  expect_contains(text, "contains a dataset that does not record its input: train.hxd (20");
  for (std::string_view name : {train_file_name, heldout_file_name})
    std::filesystem::remove(std::filesystem::path(f.options.output) / name);
  expect_contains(message_of(ExitCode::usage, [&] { prepare(f.options); }),
                  "does not record its input: tokenizer.json (20");
  std::filesystem::remove(f.folder / "out/tokenizer.json");
  f.folder.write("out/notes.txt", "mine");
  EXPECT_FALSE(prepare(f.options).skipped) << "the folder may contain other files";
  EXPECT_EQ(contents_of(f.options.output).at("notes.txt"), "mine");
}

TEST(Prepare, FailureLeavesTheOldDatasetUnchanged) {
  TextCorpus f;
  prepare(f.options);
  const auto before = contents_of(f.options.output);
  f.options.force = true;
  f.options.heldout = 0;
  const auto removes_a_text = [&](const PrepareProgress& p) {
    if (p.stage == "encoding") std::filesystem::remove(f.folder / "text/b.txt");
  };
  expect_contains(message_of(ExitCode::data, [&] { prepare(f.options, removes_a_text); }), "b.txt: cannot be opened");
  EXPECT_EQ(contents_of(f.options.output), before);
  f.options.output = f.folder / "new";
  f.folder.write("text/b.txt", book(100, 200));
  expect_contains(message_of(ExitCode::data, [&] { prepare(f.options, removes_a_text); }), "b.txt: cannot be opened");
  EXPECT_FALSE(std::filesystem::exists(f.folder / "new"));
}

TEST(Prepare, HoldsOutTheSameDocumentsWhenFilesAreRenamed) {
  TextCorpus f;
  const PrepareSummary apart = prepare(f.options);
  f.options.force = true;
  std::filesystem::rename(f.folder / "text/a.txt", f.folder / "text/c.txt");
  const PrepareSummary renamed = prepare(f.options);
  EXPECT_EQ(renamed.heldout.documents, apart.heldout.documents);
  EXPECT_EQ(renamed.heldout.text_bytes, apart.heldout.text_bytes);
}

TEST(Prepare, SmallCorporaStillHaveBothParts) {
  TextCorpus f;
  f.options.force = true;
  f.options.inputs = {f.folder.write("two.txt", "first document\n\nsecond document\n")};
  f.options.split.rule = DocumentRule::blank_lines;
  for (double heldout : {1e-9, 0.5, 0.999999}) {
    f.options.heldout = heldout;
    const PrepareSummary summary = prepare(f.options);
    EXPECT_EQ(summary.train.documents, 1);
    EXPECT_EQ(summary.heldout.documents, 1);
  }
}

TEST(Prepare, ShareOfZeroLeavesNoHeldOutFile) {
  TextCorpus f;
  prepare(f.options);
  f.options.heldout = 0;
  f.options.force = true;
  EXPECT_EQ(prepare(f.options).heldout.documents, 0);
  EXPECT_FALSE(std::filesystem::exists(f.folder / "out/heldout.hxd"));
  EXPECT_TRUE(prepare(f.options).skipped);
}

TEST(Prepare, UsesTheByteTokenizerOrAnExistingTokenizer) {
  TextCorpus f;
  f.options.tokenizer = "bytes";
  const PrepareSummary bytes = prepare(f.options);
  EXPECT_EQ(bytes.vocab_size, 258);
  EXPECT_EQ(bytes.train.tokens, bytes.train.text_bytes + bytes.train.documents);
  std::filesystem::copy(f.folder / "out/tokenizer.json", f.folder / "mine.json");
  f.options.tokenizer = f.folder / "mine.json";
  f.options.output = f.folder / "other";
  EXPECT_EQ(prepare(f.options).tokenizer, bytes.tokenizer);
}

TEST(Prepare, WarnsIfTheHeldOutPartIsTooSmall) {
  TextCorpus f;
  EXPECT_TRUE(prepare(f.options).warnings.empty());
  f.options.inputs = {f.folder.write("two.txt", "first document\n\nsecond\n")};
  f.options.split.rule = DocumentRule::blank_lines;
  f.options.force = true;
  f.options.tokenizer = "bytes";
  for (int run = 0; run < 2; ++run) {
    const auto warnings = prepare(f.options).warnings;
    ASSERT_EQ(warnings.size(), 2u);
    expect_contains(warnings[0], "the held-out part has 1 document with ");
    expect_contains(warnings[0],
                    "too little for a meaningful held-out loss: give more text, a larger --heldout "
                    "(0.1 now) or shorter documents (--split-bytes, 2000 now)");
    expect_contains(warnings[1], "% of the text, not the 10% that --heldout asks for: there are only 2 documents");
  }
}

TEST(Prepare, WarnsIfLongDocumentsLeaveTheHeldOutPartBelowItsShare) {
  TextCorpus f;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += cat("short document ", i, "\n\n");
  text += std::string(2'000'000, 'a');
  f.options.inputs = {f.folder.write("uneven.txt", text)};
  f.options.split.rule = DocumentRule::blank_lines;
  f.options.tokenizer = "bytes";
  const auto warnings = prepare(f.options).warnings;
  ASSERT_EQ(warnings.size(), 1u);
  expect_contains(warnings[0], "% of the text, not the 10% that --heldout asks for: documents are chosen");
}

TEST(Prepare, SummaryListsEveryFile) {
  TextCorpus f;
  f.folder.write("text/README.md", "read me");
  f.folder.write("text/.hidden", "secret");
  EXPECT_EQ(prepare(f.options).files, 3);
  const std::string summary = read_file(f.folder / "out/summary.json");
  expect_contains(summary, cat("\"taken\": {\n    \"text\": [\n      \"", f.folder / "text/README.md", "\",\n      \"",
                               f.folder / "text/a.txt", "\",\n      \"", f.folder / "text/b.txt", "\"\n    ]"));
  expect_contains(summary,
                  cat("\"not_taken\": {\n    \"hidden\": [\n      \"", f.folder / "text/.hidden", "\"\n    ]"));
}

TEST(Prepare, DoesNotReadItsOwnOutput) {
  TextCorpus f;
  f.options.output = f.options.inputs.front();
  expect_contains(message_of(ExitCode::usage, [&] { prepare(f.options); }),
                  "text: is the --output folder, which is not read, and --input has no other files");
  f.options.output = f.folder / "out";
  f.options.inputs = {f.folder.path()};
  f.options.output += "/";
  prepare(f.options);
  EXPECT_TRUE(prepare(f.options).skipped);
}

TEST(Prepare, ReportsItsProgress) {
  TextCorpus f;
  std::vector<std::string> stages;
  prepare(f.options, [&](const PrepareProgress& p) {
    EXPECT_LE(p.done_bytes, p.total_bytes);
    if (stages.empty() || stages.back() != p.stage) stages.emplace_back(p.stage);
  });
  EXPECT_EQ(stages, (std::vector<std::string>{"reading", "training the tokenizer", "encoding"}));
}

}  // namespace
}  // namespace hexad::data
