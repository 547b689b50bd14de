#include "framework/base/path_problem.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "framework/base/error.h"
#include "framework/base/home.h"
#include "tests/support/file_permissions.h"

namespace hexad::base {
namespace {

namespace fs = std::filesystem;

class PathProblem : public testing::Test {
 protected:
  PathProblem() {
    fs::create_directories(root_ / "folder");
    std::ofstream(root_ / "file") << "text";
    fs::create_symlink("loop", root_ / "loop");
    fs::create_symlink("gone", root_ / "dangling");
  }
  ~PathProblem() override { fs::remove_all(root_); }
  std::string at(std::string_view name) const { return (root_ / name).string(); }

  fs::path root_ = fs::temp_directory_path() / ("hexad-path-problem-test-" + std::to_string(::getpid()));
};

TEST_F(PathProblem, NamesTheReasonWhyAFileCannotBeRead) {
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_EQ(file_problem(at("file")), "");
  EXPECT_EQ(file_problem(at("none")), "no such file");
  EXPECT_EQ(file_problem(at("none/none")), "no such file");
  EXPECT_EQ(file_problem(""), "no such file");
  EXPECT_EQ(file_problem(at("folder")), "is a directory");
  EXPECT_EQ(file_problem(at("file/x")), "no such file: " + at("file") + " is not a directory");
  EXPECT_EQ(file_problem(at("loop")), "Too many levels of symbolic links");
  EXPECT_EQ(file_problem(at("dangling")), "is a link to gone, which does not exist");
  EXPECT_EQ(file_problem(at(std::string(300, 'x'))), "File name too long");
  EXPECT_EQ(file_problem(at("pipe")), "is not a regular file but a pipe");
  EXPECT_EQ(file_problem("/dev/null"), "is not a regular file but a character device");
}

TEST_F(PathProblem, NamesTheReasonWhyAFolderCannotBeListed) {
  EXPECT_EQ(folder_problem(at("folder")), "");
  EXPECT_EQ(folder_problem(at("none")), "no such folder");
  EXPECT_EQ(folder_problem(at("file")), "is a regular file, not a folder");
  EXPECT_EQ(folder_problem(at("loop")), "Too many levels of symbolic links");
}

TEST_F(PathProblem, NamesFilesAndFoldersWithoutPermission) {
  const tests::HeedFilePermissions heed;
  fs::permissions(root_ / "file", fs::perms::none);
  fs::permissions(root_ / "folder", fs::perms::none);
  EXPECT_EQ(file_problem(at("file")), "cannot be opened: Permission denied");
  EXPECT_EQ(folder_problem(at("folder")), "cannot be listed: Permission denied");
  fs::permissions(root_ / "folder", fs::perms::owner_all);
}

TEST(Home, ReplacesALeadingTilde) {
  const char* before = std::getenv("HOME");
  const std::string home = before ? before : "";
  ::setenv("HOME", "/home/me", 1);
  EXPECT_EQ(expand_home("~"), "/home/me");
  EXPECT_EQ(expand_home("~/runs/x"), "/home/me/runs/x");
  EXPECT_EQ(expand_home("~root"), "/root");
  EXPECT_EQ(expand_home("~root/x"), "/root/x");
  for (const std::string path : {"", "./~", "a/~/b", "/x/~", "runs"}) EXPECT_EQ(expand_home(path), path);
  try {
    expand_home("~no-such-user/x");
    ADD_FAILURE() << "the path was accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_STREQ(
        e.what(),
        "begins with ~no-such-user, but there is no user no-such-user; write ./~no-such-user/x for a name that "
        "begins with ~");
  }
  ::unsetenv("HOME");
  EXPECT_NE(expand_home("~/x"), "~/x") << "without HOME, the home folder comes from the password file";
  ::setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace hexad::base
