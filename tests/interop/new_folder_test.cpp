#include "tools/interop/new_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/interop/foreign_folder.h"
#include "tests/training/training.h"

namespace hexad::tests {

using interop::NewFolder;
namespace {

namespace fs = std::filesystem;

TEST(NewFolder, AppearsWhenItIsCommitted) {
  const Scratch scratch;
  const std::string target = scratch / "deep/target";
  NewFolder folder(target + "//");
  folder.add_folder("inner");
  folder.add_file("inner/text", "hello");
  EXPECT_FALSE(fs::exists(target));
  folder.commit();
  EXPECT_EQ(read_text(target + "/inner/text"), "hello");
  EXPECT_FALSE(fs::exists(folder.path()));
}

TEST(NewFolder, RemainsIfItsNameCannotBeFlushed) {
  const Scratch scratch;
  {
    NewFolder folder(scratch / "target");
    folder.add_file("text", "hello");
    const auto broken = [](std::string_view) { base::fail(ExitCode::resource, "the disk is broken"); };
    EXPECT_EQ(message_of(ExitCode::resource, [&] { folder.commit(broken); }),
              (scratch / "target") + ": is complete, but may not survive a power cut: the disk is broken");
  }
  EXPECT_EQ(read_text(scratch / "target/text"), "hello");
}

TEST(NewFolder, IsRemovedUnlessItIsCommitted) {
  const Scratch scratch;
  {
    const NewFolder folder(scratch / "target");
    folder.add_file("text", "hello");
    EXPECT_TRUE(fs::exists(folder.path()));
  }
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST(NewFolder, RefusesAFileAsItsTarget) {
  const Scratch scratch;
  write_text(scratch / "target", "mine");
  EXPECT_EQ(message_of(ExitCode::usage, [&] { NewFolder folder(scratch / "target"); }),
            (scratch / "target") + ": exists and is not a folder, expected a new or empty folder");
}

TEST(NewFolder, TargetsWithDotsAreResolved) {
  for (const char* target : {"new/.", "new/./", "other/sub/../../new", "./new"}) {
    const Scratch scratch;
    NewFolder folder(scratch / target);
    folder.add_file("text", "hello");
    folder.commit();
    EXPECT_EQ(read_text(scratch / "new/text"), "hello") << target;
  }
}

TEST(NewFolder, RefusesFoldersThatCannotBeReplaced) {
  const std::string here = fs::current_path().string();
  for (const std::string& target : {std::string("."), here, here + "/.", std::string("./")})
    EXPECT_NE(message_of(ExitCode::usage, [&] { NewFolder folder(target); }).find(": is the working directory, which"),
              std::string::npos)
        << target;
  EXPECT_NE(message_of(ExitCode::usage, [&] { NewFolder folder("/proc"); }).find("/proc: is a mount point, which"),
            std::string::npos);
}

TEST(NewFolder, RefusesAFolderThatAppearedMeanwhile) {
  const Scratch scratch;
  NewFolder folder(scratch / "target");
  fs::create_directory(scratch / "target");
  write_text(scratch / "target/mine", "text");
  message_of(ExitCode::resource, [&] { folder.commit(); });
  EXPECT_EQ(read_text(scratch / "target/mine"), "text");
}

}  // namespace
}  // namespace hexad::tests
