// Texts and JSON that `hexad prepare` reads, and inputs that it refuses.
#include "framework/data/prepare.h"

#include <gtest/gtest.h>

#include "framework/data/input_files.h"
#include "framework/data/token_dataset.h"
#include "framework/data/tokenizer.h"
#include "tests/data/corpus.h"

namespace hexad::data {

using namespace base;
namespace {

using Texts = std::vector<std::string>;

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
                             ": taken as text, but the first line is JSON with the key \"text\"; to make "
                             "each line a document, rename the file to end in .jsonl");
}

TEST(Prepare, WarnsOfListsOfObjectsWithoutTheTextKey) {
  TextCorpus f;
  f.folder.write("text/c.json", "[{\"content\": \"one\"},\n {\"content\": \"two\"}]\n");
  f.folder.write("text/d.json", "{\"name\": \"a package\",\n \"version\": \"1.0\"}\n");
  f.folder.write("text/e.json", "[{\"id\": 3}]\n");
  f.folder.write("text/f.json", "[\"one\", \"two\"]\n");
  const auto warnings = prepare(f.options).warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0],
            f.folder / "text/c.json" +
                ": taken as text, with brackets and quotes, because no object has the key "
                "\"text\"; keys with strings: content; to make each object a document, name its key of text with "
                "--text-key");
}

TEST(Prepare, JsonWithoutTheTextKeyThatTheUserNamesIsAnError) {
  TextCorpus f;
  f.options.text_key = "contents.text", f.options.text_key_given = true;
  const auto refusal = [&](std::string_view contents) {
    f.options.inputs = {f.folder.write("a.json", contents)};
    return message_of(ExitCode::data, [&] { prepare(f.options); });
  };
  const std::string list = refusal("[{\"content\": \"alpha one\"},\n {\"content\": \"two\"}]");
  expect_contains(list, "a.json: object 1: has no key \"contents.text\" (--text-key), expected an object such as ");
  expect_contains(list, "; keys with strings: content\n");
  expect_contains(list, "a.json: object 2: has no key");
  expect_contains(refusal("{\n  \"content\": \"alpha\"\n}\n"), "a.json: object 1: has no key \"contents.text\"");
  expect_contains(refusal("{\"content\": \"alpha\"}"), "a.json:1: has no key \"contents.text\"");
  f.options.inputs = {f.folder.write("a.json", "[1, 2]"), f.folder.write("b.json", "[]"), f.folder / "text"};
  EXPECT_EQ(prepare(f.options).files, 4) << "JSON lists without objects are read as text";
}

TEST(Prepare, ListIsJsonIfAnyOfItsObjectsHasAText) {
  TextCorpus f;
  f.options.inputs = {f.folder.write("a.json", "[{\"id\": 3},\n {\"text\": \"one\"}]")};
  expect_contains(message_of(ExitCode::data, [&] { prepare(f.options); }), "a.json: object 1: has no key \"text\"");
}

TEST(Prepare, WarnsOfJsonThatIsTruncated) {
  TextCorpus f;
  f.folder.write("text/c.json", "[{\"text\": \"one\"},\n {\"text\": \"two\"},\n {\"te");
  f.folder.write("text/d.json", "[{\"text\": \"one\"},\n {\"text\": \"two\"}]\n");
  f.folder.write("text/e.json", "{\"id\": 3,\n");
  f.folder.write("text/f.json", "a text with the word \"text\"\n");
  const auto warnings = prepare(f.options).warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0], f.folder / "text/c.json" +
                             ": taken as text, because it is not valid JSON, although it begins like JSON and has the "
                             "key \"text\"; if a file is truncated or damaged, restore it");
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
  expect_contains(refusal("c.json", "[{\"text\": \"x\"},\n {\"text\": 3}]"), "c.json: object 2: \"text\" is a number");
  expect_contains(refusal("d.ndjson", "{\"text\": \"a\\u0000b\"}"),
                  "d.ndjson:1: \"text\" is not text: it has a zero byte");
  std::string many;
  for (int i = 0; i < 25; ++i) many += "{}\n";
  const std::string text = refusal("e.jsonl", many);
  expect_contains(text, "e.jsonl:10: has no key");
  expect_contains(text, "e.jsonl: 15 more objects have problems");
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

TEST(Prepare, CountsEmptyDocuments) {
  TextCorpus f;
  f.folder.write("text/empty.txt", "");
  f.folder.write("text/blank.txt", " \n \n");
  EXPECT_EQ(prepare(f.options).empty_documents, 2);
}

TEST(Prepare, BadOptionsAndInputsAreNamed) {
  TextCorpus f;
  const auto message = [&](ExitCode code, auto&& change) {
    PrepareOptions options = f.options;
    change(options);
    return message_of(code, [&] { prepare(options); });
  };
  using enum ExitCode;
  expect_contains(message(usage, [](auto& o) { o.inputs.clear(); }), "--input is not given");
  expect_contains(message(usage, [](auto& o) { o.output.clear(); }), "--output is not given");
  expect_contains(message(usage, [](auto& o) { o.heldout = 1; }),
                  "--heldout is 1, expected at least 0 and less than 1");
  expect_contains(message(usage, [](auto& o) { o.heldout = NAN; }), "--heldout is nan");
  expect_contains(message(usage, [](auto& o) { o.split.longest_bytes = 3; }), "--split-bytes 3, expected 0");
  expect_contains(message(usage, [](auto& o) { o.split.rule = DocumentRule::separator; }),
                  "--split is separator, but --separator is empty, expected the line between documents");
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
  expect_contains(
      message(data, [](auto& o) { o.tokenizer = "/no/tokenizer.json"; }),
      "/no/tokenizer.json: there is no such file; expected --tokenizer bpe, bytes or the path of a tokenizer");
  expect_contains(message(data,
                          [&](auto& o) {
                            o.tokenizer = f.folder.write("config.json", "{}");
                            o.inputs = {f.folder.write("bad.jsonl", "not read")};
                          }),
                  "config.json: damaged tokenizer: no 'format'");
  const std::string blank = f.folder.write("blank", " \n");
  expect_contains(message(data, [&](auto& o) { o.inputs = {blank}; }), ": 1 file contains no text (1 empty document)");
  const std::string single = f.folder.write("single", "one line");
  expect_contains(message(data, [&](auto& o) { o.inputs = {single}; }),
                  ": 1 file contains one document, so no part can be held out; divide it into shorter documents with "
                  "--split-bytes (2000 now), or set --heldout 0");
  expect_contains(message(data,
                          [&](auto& o) {
                            o.inputs = {single};
                            o.split.longest_bytes = 0;
                          }),
                  "shorter documents with --split-bytes (no limit now), or set --heldout 0");
  const std::string copy = f.folder.write("copy", "one line");
  expect_contains(message(data,
                          [&](auto& o) {
                            o.inputs = {single, copy};
                          }),
                  ": 2 files contain only 2 equal documents, so no part can be held out; divide them into shorter "
                  "documents");
  expect_contains(message(resource, [](auto& o) { o.output = "/proc/none"; }), "/proc/none: cannot be created");
}

}  // namespace
}  // namespace hexad::data
