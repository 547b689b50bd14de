#include "framework/data/prepare.h"

#include <gtest/gtest.h>

#include <cmath>

#include "framework/data/input_files.h"
#include "framework/data/token_dataset.h"
#include "framework/data/tokenizer.h"
#include "tests/data/corpus.h"

namespace hexad::data {

using namespace base;
namespace {

std::vector<std::string> documents(std::string_view text, const DocumentSplit& split) {
  std::vector<std::string> result;
  for_each_document(text, split, [&](std::string_view document) { result.emplace_back(document); });
  return result;
}

using Texts = std::vector<std::string>;

TEST(Documents, FileIsADocument) {
  EXPECT_EQ(documents("one\n\ntwo\n", {}), (Texts{"one\n\ntwo\n"}));
  EXPECT_EQ(documents(" \n\t", {}), (Texts{""})) << "a text of only white space is empty";
  EXPECT_EQ(documents("", {}), (Texts{""}));
}

TEST(Documents, AreCutAtBlankLines) {
  const DocumentSplit split{.rule = DocumentRule::blank_lines, .separator = ""};
  EXPECT_EQ(documents("\n\na\nb\n\n \r\nc\n\n\n", split), (Texts{"a\nb\n", "c\n"}));
  EXPECT_EQ(documents("a", split), (Texts{"a"}));
  EXPECT_EQ(documents("\n", split), Texts{});
}

TEST(Documents, AreCutAtSeparatorLines) {
  const DocumentSplit split{.rule = DocumentRule::separator, .separator = "%"};
  EXPECT_EQ(documents("a%\n\nb\n%\r\nc\n%\n%\nd", split), (Texts{"a%\n\nb\n", "c\n", "", "d"}));
}

TEST(Documents, LongDocumentsAreCutAtPausesAndKeepEveryByte) {
  const std::string text = book(0, 50) + std::string(3000, 'x') + std::string(1500, '\xc3') + "\n" + book(0, 5);
  std::string joined;
  for (const std::string& piece : documents(text, {.separator = "", .longest_bytes = 1000})) {
    EXPECT_LE(piece.size(), 1000u);
    joined += piece;
  }
  EXPECT_EQ(joined, text);
  for (const std::string& piece : documents(book(0, 50), {.separator = "", .longest_bytes = 2000})) {
    EXPECT_TRUE(piece.ends_with("\n\n"));
  }
}

TEST(Documents, CutDoesNotSplitAUtf8Character) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "\xe2\x82\xac";
  std::string joined;
  for (const std::string& piece : documents(text, {.separator = "", .longest_bytes = 16})) {
    EXPECT_LE(piece.size(), 16u);
    EXPECT_EQ(piece.size() % 3, 0u);
    joined += piece;
  }
  EXPECT_EQ(joined, text);
}

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

TEST(Prepare, UsesTheByteTokenizerOrAnExistingOne) {
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

TEST(Prepare, AnyBytesSurvive) {
  TextCorpus f;
  std::string bytes;
  for (int i = 0; i < 4096; ++i) bytes += static_cast<char>(i * 37 + i / 256);
  f.options.inputs = {f.folder.write("binary", bytes)};
  EXPECT_THROW(prepare(f.options), Error);
  f.options.binary = true;
  f.options.split.longest_bytes = 0;
  f.options.heldout = 0;
  prepare(f.options);
  const TokenDataset train(f.folder / "out/train.hxd");
  std::vector<int32_t> ids(train.tokens());
  train.read_ids(0, ids);
  EXPECT_EQ(load_tokenizer(f.folder / "out/tokenizer.json")->decode(ids), bytes);
}

TEST(Prepare, RefusesNonTextBytesAnywhereInAFile) {
  TextCorpus f;
  const std::string text = book(0, 5000);
  ASSERT_GT(text.size(), size_t{2} << 20);
  const auto refusal = [&](std::string_view bad, size_t at) {
    std::string changed = text;
    changed.replace(at, bad.size(), bad);
    f.folder.write("text/a.txt", changed);
    return message_of(ExitCode::data, [&] { prepare(f.options); });
  };
  for (const size_t at : {size_t{0}, size_t{7}, size_t{8}, size_t{1} << 20, text.size() - 1}) {
    expect_contains(refusal(std::string_view("\0", 1), at), cat("a.txt: is not text: byte ", at, " is 0x00"));
    expect_contains(refusal("\xe9", at), cat("a.txt: is not text: byte ", at, " is 0xe9, which is not UTF-8"));
  }
  expect_contains(refusal("\xe9", size_t{2} << 20), " (line ");
  f.folder.write("text/a.txt", std::string_view("\xff\xfe"
                                                "a\0b\0",
                                                6));
  expect_contains(message_of(ExitCode::data, [&] { prepare(f.options); }),
                  "a.txt: is UTF-16LE text, expected UTF-8; leave the file out");
  f.folder.write("text/a.txt", std::string_view("a\0b\0c\0d\0e\0", 10));
  expect_contains(message_of(ExitCode::data, [&] { prepare(f.options); }), "a.txt: is UTF-16LE text");
}

TEST(Prepare, NamesAllBadFilesTogether) {
  TextCorpus f;
  for (int i = 0; i < 40; ++i) f.folder.write(cat("text/bad-", i, ".txt"), "caf\xe9");
  f.folder.write("text/lines.jsonl", "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n[]\n");
  const std::string text = message_of(ExitCode::data, [&] { prepare(f.options); });
  expect_contains(text, "42 problems of the input:\n");
  for (int i = 0; i < 40; ++i) expect_contains(text, cat("text/bad-", i, ".txt: is not text: byte 3 is 0xe9"));
  expect_contains(text, "lines.jsonl:2: has no key \"text\"");
  expect_contains(text, "lines.jsonl:3: is not a JSON object but []");
  for (const char* remedy : {"pass --binary", "correct or remove the object"}) {
    expect_contains(text, remedy);
    EXPECT_EQ(text.find(remedy), text.rfind(remedy)) << "the remedy is printed once";
  }
}

TEST(Prepare, ByteOrderMarkIsNotPartOfTheText) {
  TextCorpus plain, marked;
  marked.folder.write("text/a.txt", "\xef\xbb\xbf" + book(0, 100));
  EXPECT_EQ(prepare(marked.options).train, prepare(plain.options).train);
}

// Prepares one file with the byte tokenizer. Returns its documents, decoded from their tokens.
Texts documents_of(std::string_view name, std::string_view contents) {
  TextCorpus f;
  f.options.inputs = {f.folder.write(name, contents)};
  f.options.tokenizer = "bytes";
  f.options.heldout = 0;
  prepare(f.options);
  const TokenDataset train(f.folder / "out/train.hxd");
  const auto tokenizer = load_tokenizer(f.folder / "out/tokenizer.json");
  Texts texts;
  for (int64_t d = 0; d < train.documents(); ++d) {
    const auto begin = train.offsets()[d], end = train.offsets()[d + 1];
    std::vector<int32_t> ids(end - begin);
    train.read_ids(begin, ids);
    texts.push_back(tokenizer->decode(ids));
  }
  return texts;
}

TEST(Prepare, ReadsJsonObjectsUnderAllTheirNames) {
  const std::string lines = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
  for (const char* name : {"a.jsonl", "a.JSONL", "a.ndjson", "a.NDJson", "a.jsonlines", "a.json", "a.JSON"})
    EXPECT_EQ(documents_of(name, lines), (Texts{"one", "two"})) << name;
  EXPECT_EQ(documents_of("a.jsonl", "\xef\xbb\xbf" + lines), (Texts{"one", "two"}));
  EXPECT_EQ(documents_of("a.json", "[" + lines.substr(0, 15) + ",\n" + lines.substr(16) + "]"), (Texts{"one", "two"}));
  EXPECT_EQ(documents_of("a.json", "{\n  \"text\": \"one\",\n  \"id\": 3\n}\n"), (Texts{"one"}));
  EXPECT_EQ(documents_of("a.json", "{\"text\": \"one\"}"), (Texts{"one"}));
  for (const std::string config : {"{\"hidden\": 64}", "{\n  \"hidden\": 64\n}\n", "[1, 2]", "words {"})
    EXPECT_EQ(documents_of("a.json", config), Texts{config});
  EXPECT_EQ(documents_of("a.txt", lines), Texts{lines});
}

TEST(Prepare, WarnsOfJsonLinesUnderTheNameOfAText) {
  TextCorpus f;
  const std::string lines = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
  f.folder.write("text/c.txt", lines);
  f.folder.write("text/d.jsonl", lines);
  f.folder.write("text/e.txt", "{\"id\": 3}\n");
  const auto warnings = prepare(f.options).warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0], f.folder / "text/c.txt" +
                             ": taken as text, but the first line is JSON with the key \"text\"; if the "
                             "file were named .jsonl, each line would be a document");
}

TEST(Prepare, JsonWithoutItsTextIsNamedByLineOrNumber) {
  TextCorpus f;
  const auto refusal = [&](std::string_view name, std::string_view contents) {
    f.options.inputs = {f.folder.write(name, contents)};
    return message_of(ExitCode::data, [&] { prepare(f.options); });
  };
  const std::string two = refusal("b.json", "{\"body\": \"x\"}\n{\"body\": \"y\"}\n");
  expect_contains(two,
                  "b.json:1: has no key \"text\" (--text-key), expected an object such as {\"text\": \"...\"}; keys "
                  "with strings: body\n");
  expect_contains(two,
                  "\ncorrect or remove the object, because no option skips single objects; --exclude PATTERN skips");
  expect_contains(refusal("c.json", "[{\"text\": \"x\"},\n {\"text\": 3}]"), "c.json: object 2: \"text\" is number");
  expect_contains(refusal("d.ndjson", "{\"text\": \"a\\u0000b\"}"),
                  "d.ndjson:1: \"text\" is not text: it has a zero byte");
  std::string many;
  for (int i = 0; i < 25; ++i) many += "{}\n";
  const std::string text = refusal("e.jsonl", many);
  expect_contains(text, "e.jsonl:10: has no key");
  expect_contains(text, "e.jsonl: 15 more objects have problems");
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
    expect_contains(warnings[0], "the held-out part is 1 document of ");
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

TEST(Prepare, FilesWithoutTextAreCountedApart) {
  TextCorpus f;
  f.options.inputs.push_back(f.folder.write("blank.txt", " \n\n"));
  for (const bool again : {false, true}) {
    const PrepareSummary summary = prepare(f.options);
    EXPECT_EQ(summary.skipped, again);
    EXPECT_EQ(summary.files, 2);
    EXPECT_EQ(summary.empty_documents, 1);
    EXPECT_EQ(lines_of_skipped(summary.inputs), Texts{"1 file without text: " + f.folder / "blank.txt"});
  }
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

TEST(Prepare, CountsEmptyDocuments) {
  TextCorpus f;
  f.folder.write("text/empty.txt", "");
  f.folder.write("text/blank.txt", " \n \n");
  EXPECT_EQ(prepare(f.options).empty_documents, 2);
}

TEST(Prepare, ReportsItsProgress) {
  TextCorpus f;
  std::vector<std::string> stages;
  prepare(f.options, [&](const PrepareProgress& p) {
    EXPECT_LE(p.done_bytes, p.total_bytes);
    if (stages.empty() || stages.back() != p.stage) stages.emplace_back(p.stage);
  });
  EXPECT_EQ(stages, (Texts{"reading", "training the tokenizer", "encoding"}));
}

TEST(Prepare, BadOptionsAndInputsAreNamed) {
  TextCorpus f;
  const auto message = [&](ExitCode code, auto&& change) {
    PrepareOptions options = f.options;
    change(options);
    return message_of(code, [&] { prepare(options); });
  };
  using enum ExitCode;
  expect_contains(message(usage, [](auto& o) { o.inputs.clear(); }), "no input");
  expect_contains(message(usage, [](auto& o) { o.output.clear(); }), "no output folder");
  expect_contains(message(usage, [](auto& o) { o.heldout = 1; }), "held-out fraction is 1, expected 0 to below 1");
  expect_contains(message(usage, [](auto& o) { o.heldout = NAN; }), "held-out fraction is nan");
  expect_contains(message(usage, [](auto& o) { o.split.longest_bytes = 3; }), "at most 3 bytes");
  expect_contains(message(usage, [](auto& o) { o.split.rule = DocumentRule::separator; }),
                  "--split separator needs --separator, the line between documents, but it is empty");
  expect_contains(message(usage, [](auto& o) { o.inputs.push_back(o.inputs.front() + "/./a.txt"); }),
                  "text/./a.txt: is given twice by --input, also as ");
  expect_contains(message(usage, [](auto& o) { o.inputs.push_back(o.inputs.front()); }), "; name each input once");
  expect_contains(message(usage,
                          [](auto& o) {
                            o.inputs = {"/no/such", "/nor/this"};
                          }),
                  "2 problems of the input:\n  /no/such: no such file or folder\n  /nor/this: no such file or folder");
  expect_contains(message(usage, [](auto& o) { o.vocab_size = 100; }), "tokenizer vocabulary of 100 ids");
  expect_contains(message(usage, [](auto& o) { o.inputs = {"/no/such"}; }), "/no/such: no such file");
  expect_contains(message(data, [](auto& o) { o.tokenizer = "/no/tokenizer.json"; }),
                  "/no/tokenizer.json: there is no such file");
  const std::string blank = f.folder.write("blank", " \n");
  expect_contains(message(data, [&](auto& o) { o.inputs = {blank}; }), "without any text (1 empty document)");
  const std::string single = f.folder.write("single", "one line");
  expect_contains(message(data, [&](auto& o) { o.inputs = {single}; }),
                  "is one document, so no part can be held out; cut it into shorter documents (--split-bytes, 2000 "
                  "now) or give --heldout 0");
  expect_contains(message(data,
                          [&](auto& o) {
                            o.inputs = {single};
                            o.split.longest_bytes = 0;
                          }),
                  "shorter documents (--split-bytes, no limit now) or give --heldout 0");
  const std::string copy = f.folder.write("copy", "one line");
  expect_contains(message(data,
                          [&](auto& o) {
                            o.inputs = {single, copy};
                          }),
                  "has 2 equal documents, so no part can be held out; cut them into shorter documents");
  expect_contains(message(resource, [](auto& o) { o.output = "/proc/none"; }), "/proc/none: cannot be created");
}

}  // namespace
}  // namespace hexad::data
