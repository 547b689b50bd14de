// Text that arrives in blocks: its division into documents, and its checks.
#include "framework/data/documents.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vector>

#include "framework/data/byte_stream.h"
#include "framework/data/document_reader.h"
#include "framework/data/text_check.h"
#include "tests/data/corpus.h"

namespace hexad::data {
namespace {

using Texts = std::vector<std::string>;

// Returns the documents of a text that arrives in blocks of `size` bytes.
Texts split_in_blocks(std::string_view text, const DocumentSplit& split, size_t size) {
  Texts documents;
  DocumentSplitter splitter("text", split, [&](std::string_view document) { documents.emplace_back(document); });
  for (size_t at = 0; at < text.size(); at += size) splitter.add(text.substr(at, size));
  splitter.finish();
  return documents;
}

TEST(DocumentSplitter, DocumentsDoNotDependOnTheBlocks) {
  const std::string texts[] = {"",
                               "\n",
                               " \n\n a",
                               "one\n\n\ntwo\n \r\nthree",
                               "%\na%\n%\r\n%\nb\n%",
                               book(0, 3) + std::string(300, ' ') + "\n" + book(3, 5)};
  for (const std::string& text : texts)
    for (const DocumentRule rule : {DocumentRule::file, DocumentRule::blank_lines, DocumentRule::separator})
      for (const int64_t longest : {int64_t{0}, int64_t{64}, int64_t{65536}}) {
        const DocumentSplit split{.rule = rule, .separator = "%", .longest_bytes = longest};
        const Texts whole = split_in_blocks(text, split, text.size() + 1);
        for (const size_t size : {size_t{1}, size_t{2}, size_t{5}, size_t{100}})
          EXPECT_EQ(split_in_blocks(text, split, size), whole) << "blocks of " << size << " of: " << text;
      }
}

TEST(DocumentSplitter, WhiteSpaceBeforeALongTextIsKeptAndWhiteSpaceAloneIsEmpty) {
  const DocumentSplit split{.separator = "", .longest_bytes = 16};
  const std::string spaces(50, ' ');
  EXPECT_EQ(split_in_blocks(spaces, split, 7), Texts{""});
  std::string joined;
  for (const std::string& piece : split_in_blocks(spaces + "words", split, 7)) joined += piece;
  EXPECT_EQ(joined, spaces + "words");
}

// 257 MiB of zeros. The mapping takes almost no memory if the zeros are not copied.
struct Zeros {
  size_t size = size_t{257} << 20;
  void* bytes = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ~Zeros() { ::munmap(bytes, size); }
  std::string_view view() const { return {static_cast<const char*>(bytes), size}; }
};

TEST(DocumentSplitter, TooLargeDocumentIsNamed) {
  const Zeros zeros;
  ASSERT_NE(zeros.bytes, MAP_FAILED);
  DocumentSplitter splitter("large.txt", {.separator = "", .longest_bytes = 0}, [](std::string_view) {});
  splitter.add("words ");
  expect_contains(
      message_of(ExitCode::data, [&] { splitter.add(zeros.view()); }),
      "large.txt: has a document of more than 268435456 bytes, the maximum; divide the document with --split-bytes");
}

TEST(PartReader, DocumentsNameTheirFileAndLine) {
  const auto places = [](const InputFile& file, std::string_view contents) {
    Texts found;
    PartReader reader(file, {}, [&](FilePart&& part) {
      read_part(
          file, {}, std::move(part), [&](Document&& document) { found.push_back(document.place); },
          [](const std::string& problem) { ADD_FAILURE() << problem; });
    });
    reader.add(contents);
    reader.finish();
    return found;
  };
  EXPECT_EQ(places({.path = "a.jsonl", .form = TextForm::json_lines}, "{\"text\": \"one\"}\n\n{\"text\": \"two\"}\n"),
            (Texts{"a.jsonl:1", "a.jsonl:3"}));
  EXPECT_EQ(places({.path = "a.txt"}, "words"), Texts{"a.txt"});
}

TEST(PartReader, DocumentsOfAPartAreBounded) {
  const InputFile file{.path = "a.json", .form = TextForm::json};
  ReadRules rules;
  rules.max_part_bytes = 5;
  Texts documents, problems;
  read_part(
      file, rules, {.bytes = R"([{"text": "abc"}, {"text": "de"}, {"text": "f"}])"},
      [&](Document&& document) { documents.push_back(std::move(document.text)); },
      [&](const std::string& problem) { problems.push_back(problem); });
  EXPECT_EQ(documents, (Texts{"abc", "de"}));
  EXPECT_EQ(problems, Texts{"a.json: object 3: the documents up to this object have more than 5 bytes of text, the "
                            "maximum; expected JSON lines (.jsonl)"});
}

TEST(RecordSplitter, TooLongLineIsNamed) {
  const Zeros zeros;
  ASSERT_NE(zeros.bytes, MAP_FAILED);
  RecordSplitter lines(TextForm::json_lines, "large.jsonl", [](std::string&&, int64_t) {});
  lines.add("{\"text\": \"one\"}\n{");
  expect_contains(message_of(ExitCode::data, [&] { lines.add(zeros.view()); }),
                  "large.jsonl:2: is longer than 268435456 bytes, the maximum; expected JSON lines");
}

TEST(RecordSplitter, TooLongLineIsNamedEvenIfItEndsInsideABlock) {
  const Zeros zeros;
  ASSERT_NE(zeros.bytes, MAP_FAILED);
  std::vector<size_t> sizes;
  RecordSplitter lines(TextForm::json_lines, "large.jsonl",
                       [&](std::string&& line, int64_t) { sizes.push_back(line.size()); });
  lines.add(zeros.view().substr(0, largest_document));
  expect_contains(message_of(ExitCode::data, [&] { lines.add("{\n"); }),
                  "large.jsonl:1: is longer than 268435456 bytes, the maximum; expected JSON lines");
  lines.add("\n");
  EXPECT_EQ(sizes, std::vector<size_t>{static_cast<size_t>(largest_document)})
      << "a line of exactly the maximum is read";
}

TEST(TextCheck, FindsTheSameProblemInSmallAndLargeBlocks) {
  const std::string euro = "\xe2\x82\xac", text = book(0, 2);
  for (const std::string& bad : {text + "\xe9 " + text, text + "\n\n" + std::string(1, '\0'), euro + "\xe2\x82",
                                 euro + "\xe2\x28\xa1", text + "\xf0\x9f\x98"}) {
    const TextProblem whole = check_text(bad);
    ASSERT_TRUE(whole);
    for (const size_t size : {size_t{1}, size_t{2}, size_t{3}, size_t{64}}) {
      TextCheck check;
      TextProblem problem;
      for (size_t at = 0; at < bad.size() && !problem; at += size) problem = check.add(bad.substr(at, size));
      if (!problem) problem = check.finish();
      EXPECT_EQ(problem.what, whole.what) << "blocks of " << size;
    }
  }
}

TEST(TextCheck, AcceptsCharactersThatSpanBlocks) {
  TextCheck check;
  for (const char c : std::string("a\xe2\x82\xac\xf0\x9f\x98\x80z")) EXPECT_FALSE(check.add(std::string_view(&c, 1)));
  EXPECT_FALSE(check.finish());
}

}  // namespace
}  // namespace hexad::data
