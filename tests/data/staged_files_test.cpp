#include "framework/data/staged_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>

#include "tests/data/data_folder.h"

namespace hexad::data {
namespace {

constexpr std::array<std::string_view, 3> names{"first", "second", "third"};

std::string contents(const ScratchFolder& folder, std::string_view name) {
  return std::filesystem::exists(folder / name) ? read_file(folder / name) : "none";
}

void write(const StagedFiles& staged, std::string_view name) { std::ofstream(staged.path(name)) << "new"; }

size_t entries(const ScratchFolder& folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++count;
  return count;
}

TEST(StagedFiles, AppearTogether) {
  const ScratchFolder folder;
  folder.write("first", "old"), folder.write("second", "old"), folder.write("other", "old");
  {
    StagedFiles staged(folder.path());
    write(staged, "first"), write(staged, "third");
    EXPECT_EQ(contents(folder, "first"), "old") << "the commit has not moved the file yet";
    staged.commit(names);
  }
  EXPECT_EQ(contents(folder, "first"), "new");
  EXPECT_EQ(contents(folder, "second"), "none") << "the commit must remove an old file without a new version";
  EXPECT_EQ(contents(folder, "third"), "new");
  EXPECT_EQ(contents(folder, "other"), "old");
  EXPECT_EQ(entries(folder), 3u);
}

TEST(StagedFiles, AreRemovedWithoutCommit) {
  const ScratchFolder folder;
  folder.write("first", "old");
  {
    const StagedFiles staged(folder.path());
    write(staged, "first");
    EXPECT_EQ(entries(folder), 2u);
  }
  EXPECT_EQ(contents(folder, "first"), "old");
  EXPECT_EQ(entries(folder), 1u);
}

// A move fails if its destination folder does not exist. In the first case, the move of the old file sub/old fails. In
// the second case, the move of the new file sub/new fails.
TEST(StagedFiles, FailedCommitRestoresTheOldFiles) {
  using Names = std::array<std::string_view, 2>;
  for (const Names& order : {Names{"first", "sub/old"}, Names{"sub/new", "first"}}) {
    const ScratchFolder folder;
    folder.write("first", "old");
    if (order[1] == "sub/old") folder.write("sub/old", "old");
    {
      StagedFiles staged(folder.path());
      write(staged, "first");
      std::filesystem::create_directory(staged.path("sub"));
      write(staged, "sub/new");
      expect_contains(message_of(ExitCode::resource, [&] { staged.commit(order); }), "cannot be renamed to");
    }
    EXPECT_EQ(contents(folder, "first"), "old");
    EXPECT_EQ(entries(folder), order[1] == "sub/old" ? 2u : 1u);
  }
}

// The names of leftover files contain a process id. A running process may have this id, because ids are reused.
TEST(StagedFiles, LeftoversAreRecognisedWhileAnotherProcessHasTheirNumber) {
  const ScratchFolder folder;
  for (const int pid : {::getppid(), ::getpid()}) {
    const std::string number = std::to_string(pid);
    folder.write("new." + number + ".tmp/first", "new"), folder.write("done." + number + ".tmp/first", "old");
    folder.write("new." + number + ".tmp.txt", "of the user");
    { const StagedFiles staged(folder.path()); }
    EXPECT_EQ(entries(folder), 1u) << "only the file of the user must remain";
    std::filesystem::remove(folder / ("new." + number + ".tmp.txt"));
    folder.write("old." + number + ".tmp/first", "old"), folder.write("new." + number + ".tmp/first", "new");
    expect_contains(message_of(ExitCode::usage, [&] { const StagedFiles staged(folder.path()); }),
                    "old." + number + ".tmp: contains old files");
    EXPECT_EQ(entries(folder), 2u) << "the new files may be needed to complete the replacement";
    std::filesystem::remove_all(folder / ("old." + number + ".tmp"));
  }
}

TEST(StagedFiles, FailedFlushKeepsTheNewFilesAndDoesNotBlockTheFolder) {
  const ScratchFolder folder;
  folder.write("first", "old");
  const auto commit = [&] {
    StagedFiles staged(folder.path());
    write(staged, "first");
    const auto broken = [](std::string_view) { base::fail(ExitCode::resource, "the disk is broken"); };
    return message_of(ExitCode::resource, [&] { staged.commit(names, broken); });
  };
  const std::string message = commit();
  expect_contains(message,
                  "has the new files, but they may not survive a power cut: the disk is broken; the old files ");
  EXPECT_EQ(contents(folder, "first"), "new");
  EXPECT_EQ(entries(folder), 2u) << "the old files must remain, as the new names may be lost";
  { const StagedFiles next(folder.path()); }
  EXPECT_EQ(entries(folder), 1u);

  std::filesystem::remove(folder / "first");
  EXPECT_EQ(commit().find("old files"), std::string::npos) << "there were no old files";
  EXPECT_EQ(entries(folder), 1u);
}

}  // namespace
}  // namespace hexad::data
