#include "framework/config/nearest_path.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace hexad::config {
namespace {

namespace fs = std::filesystem;

class NearestFolders : public testing::Test {
 protected:
  NearestFolders() {
    std::string name = (fs::temp_directory_path() / "hexad-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp cannot create the folder " + name);
    folder_ = name;
    for (const char* run : {"sixteen", "twelve", "ten", "four"}) fs::create_directories(folder_ / "runs" / run);
  }
  ~NearestFolders() override { fs::remove_all(folder_); }

  std::string at(const char* path) const { return (folder_ / path).string(); }
  fs::path folder_;
};

TEST_F(NearestFolders, NamesTheSimilarFolder) {
  EXPECT_EQ(nearest_folders(at("runs/sixten")), "; did you mean '" + at("runs/sixteen") + "'?");
  EXPECT_EQ(nearest_folders(at("runs/sixten/")), "; did you mean '" + at("runs/sixteen") + "'?");
}

TEST_F(NearestFolders, KeepsTheExistingPathBelowTheMisspeltFolder) {
  EXPECT_EQ(nearest_folders(at("run/twelve")), "; did you mean '" + at("runs/twelve") + "'?");
  EXPECT_EQ(nearest_folders(at("run/none")), "; did you mean '" + at("runs") + "'?");
}

TEST_F(NearestFolders, ListsExistingFoldersIfNoneIsSimilar) {
  EXPECT_EQ(nearest_folders(at("runs/nope")), "; in '" + at("runs") + "' there are: four, ten, twelve and 1 more");
}

TEST_F(NearestFolders, NamesAcceptedFoldersBelow) {
  const auto short_name = [](const fs::path& path) { return path.filename().string().size() < 5; };
  EXPECT_EQ(accepted_below(at("runs"), short_name), "; below it: '" + at("runs/four") + "', '" + at("runs/ten") + "'");
  EXPECT_EQ(accepted_below(at("runs/ten"), short_name), "");
  EXPECT_EQ(accepted_below(at("nowhere"), short_name), "");
  for (const char* run : {"a", "b", "c", "d"}) fs::create_directories(folder_ / "runs" / run);
  EXPECT_TRUE(accepted_below(at("runs"), short_name).ends_with("'" + at("runs/four") + "' and 1 more"));
}

TEST_F(NearestFolders, NamesNothingForAnExistingPath) { EXPECT_EQ(nearest_folders(at("runs/ten")), ""); }

}  // namespace
}  // namespace hexad::config
