// A recipe of the version before is read, and its user told.
#include "framework/config/renames.h"

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
  EXPECT_EQ(said[0],
            "r.yaml:4: schedule.moe.parts is called schedule.moe.chunks now; the next version will not know it");
  EXPECT_EQ(said[2], "r.yaml:5: schedule.moe.memory_reuse: keep is called none now; the next version will not know it");
}

TEST(Renames, OfACommandLineToo) {
  const std::string overrides[] = {"schedule.moe.parts=2"};
  Document d = parse("schedule: {moe: {restore: s1}}", "r.yaml", overrides);
  EXPECT_EQ(rename_keys(d, renames).size(), 2u);
  EXPECT_EQ(text_of(d, "schedule.moe", "chunks"), "2");
  EXPECT_EQ(text_of(d, "schedule.moe", "memory_reuse"), "s1");
}

TEST(Renames, LeaveNewNamesAlone) {
  Document d = parse("schedule: {moe: {chunks: 4, memory_reuse: s1}}", "r.yaml");
  EXPECT_TRUE(rename_keys(d, renames).empty());
  Document other = parse("schedule: 3", "r.yaml");
  EXPECT_TRUE(rename_keys(other, renames).empty());
}

TEST(Renames, BothNamesAreAnError) {
  Document d = parse("schedule:\n  moe:\n    chunks: 2\n    parts: 4\n", "r.yaml");
  try {
    rename_keys(d, renames);
    FAIL();
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::usage);
    EXPECT_EQ(std::string(e.what()),
              "r.yaml:4: schedule.moe.parts is the old name of schedule.moe.chunks, which r.yaml:3 gives, too; leave "
              "one of them out");
  }
}

}  // namespace
}  // namespace hexad::config
