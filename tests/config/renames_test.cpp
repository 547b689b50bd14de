// Recipes of the previous version: the renaming of their keys, and the warnings to the user.
#include "framework/config/renames.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "framework/base/error.h"

namespace hexad::config {
namespace {

const Rename renames[] = {{"schedule.moe", "parts", "chunks"},
                          {"schedule.moe", "restore", "memory_reuse", {{"keep", "none"}}},
                          {"", "old", "young"}};

std::string text_of(const Document& d, std::string_view section, std::string_view key) {
  const Node* node = section.empty() ? &d.root : d.root.find("schedule")->find("moe");
  const Node* value = node->find(key);
  return value ? value->text : "(none)";
}

TEST(Renames, GiveAnOldKeyItsNewName) {
  Document d = parse("old: 3\nschedule:\n  moe:\n    parts: 4\n    restore: keep\n", "r.yaml");
  const std::vector<std::string> said = rename_keys(d, renames);
  EXPECT_EQ(text_of(d, "schedule.moe", "chunks"), "4");
  EXPECT_EQ(text_of(d, "schedule.moe", "memory_reuse"), "none");
  EXPECT_EQ(text_of(d, "", "young"), "3");
  ASSERT_EQ(said.size(), 4u);
  EXPECT_EQ(
      said[0],
      "r.yaml:4: schedule.moe.parts is now called schedule.moe.chunks; the next version will refuse the old name");
  EXPECT_EQ(said[2],
            "r.yaml:5: schedule.moe.memory_reuse: keep is now called none; the next version will refuse the old name");
}

TEST(Renames, ApplyAlsoToTheCommandLine) {
  const std::string overrides[] = {"schedule.moe.parts=2"};
  Document d = parse("schedule: {moe: {restore: s1}}", "r.yaml", overrides);
  EXPECT_EQ(rename_keys(d, renames).size(), 2u);
  EXPECT_EQ(text_of(d, "schedule.moe", "chunks"), "2");
  EXPECT_EQ(text_of(d, "schedule.moe", "memory_reuse"), "s1");
}

TEST(Renames, ApplyToAnElementOfAList) {
  const Rename in_list[] = {{"list.1.moe", "parts", "chunks"}, {"list.2.moe", "parts", "chunks"}};
  Document d = parse("list: [{moe: {parts: 1}}, {moe: {parts: 2}}]", "r.yaml");
  EXPECT_EQ(rename_keys(d, in_list), std::vector<std::string>{"r.yaml:1: list.1.moe.parts is now called "
                                                              "list.1.moe.chunks; the next version will refuse the "
                                                              "old name"});
  const Node* const list = d.root.find("list");
  EXPECT_TRUE(list->children[0].find("moe")->find("parts"));
  EXPECT_EQ(list->children[1].find("moe")->find("chunks")->text, "2");
}

TEST(Renames, DoNotChangeNewNames) {
  Document d = parse("schedule: {moe: {chunks: 4, memory_reuse: s1}}", "r.yaml");
  EXPECT_TRUE(rename_keys(d, renames).empty());
  Document other = parse("schedule: 3", "r.yaml");
  EXPECT_TRUE(rename_keys(other, renames).empty());
}

std::string refusal(Document d) {
  try {
    rename_keys(d, renames);
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::usage);
    return e.what();
  }
  return "accepted";
}

TEST(Renames, ReportEveryKeyGivenUnderBothNames) {
  EXPECT_EQ(refusal(parse("schedule:\n  moe:\n    chunks: 2\n    parts: 4\nold: 1\nyoung: 2\n", "r.yaml")),
            "r.yaml:4: schedule.moe.parts is the old name of schedule.moe.chunks, which r.yaml:3 also gives; remove "
            "one of them\n"
            "r.yaml:5: old is the old name of young, which r.yaml:6 also gives; remove one of them");
  const std::string overrides[] = {"old=1", "young=2"};
  EXPECT_EQ(refusal(parse("{}", "r.yaml", overrides)),
            "command line: old=1: old is the old name of young, which command line: young=2 also gives; remove one "
            "of them");
}

TEST(Renames, CommandLineOverridesTheFileUnderEitherName) {
  const std::string now[] = {"schedule.moe.chunks=8"}, before[] = {"schedule.moe.parts=8"};
  Document d = parse("schedule: {moe: {parts: 4}}", "r.yaml", now);
  EXPECT_EQ(rename_keys(d, renames).size(), 1u);
  EXPECT_EQ(text_of(d, "schedule.moe", "chunks"), "8");
  EXPECT_EQ(text_of(d, "schedule.moe", "parts"), "(none)");
  d = parse("schedule: {moe: {chunks: 4}}", "r.yaml", before);
  EXPECT_EQ(rename_keys(d, renames).size(), 1u);
  EXPECT_EQ(text_of(d, "schedule.moe", "chunks"), "8");
}

TEST(Renames, LaterFileOverridesEarlierFilesUnderEitherName) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "hexad_renames_test";
  std::filesystem::create_directories(folder);
  const auto value_of = [&](const std::string& first, const std::string& second, const std::string& own) {
    std::ofstream(folder / "a.yaml") << first;
    std::ofstream(folder / "b.yaml") << second;
    std::ofstream(folder / "c.yaml") << "include: [a.yaml, b.yaml]\n" << own;
    Document d = load(folder / "c.yaml");
    rename_keys(d, renames);
    return text_of(d, "", "young");
  };
  EXPECT_EQ(value_of("old: 1", "other: 0", "young: 3"), "3");
  EXPECT_EQ(value_of("young: 1", "other: 0", "old: 3"), "3");
  EXPECT_EQ(value_of("old: 1", "young: 2", "old: 3"), "3");
  EXPECT_EQ(value_of("old: 1", "young: 2", "other: 3"), "2");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace hexad::config
