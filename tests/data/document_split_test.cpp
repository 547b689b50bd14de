// Division of texts into documents.
#include "framework/data/documents.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace hexad::data
