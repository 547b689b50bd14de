#include "tools/check_cluster/folder_file.h"

#include <gtest/gtest.h>

namespace hexad::check_cluster {
namespace {

TEST(FolderFile, ContentsBelongToOneRankAndVersion) {
  for (const int rank : {0, 7, 12345}) {
    const std::string text = contents_of(rank, 1);
    EXPECT_GE(text.size(), size_t{1} << 20);
    EXPECT_LT(text.size(), max_file_bytes);
    EXPECT_TRUE(is_contents_of(text, rank, 1));
    EXPECT_FALSE(is_contents_of(text, rank, 2));
    EXPECT_FALSE(is_contents_of(text, rank + 1, 1));
    EXPECT_FALSE(is_contents_of("", rank, 1));
  }
}

TEST(FolderFile, TornContentsAreRecognised) {
  const std::string text = contents_of(3, 2), old = contents_of(3, 1);
  EXPECT_FALSE(is_contents_of(text.substr(0, text.size() - 1), 3, 2));
  EXPECT_FALSE(is_contents_of(text + "\n", 3, 2));
  EXPECT_FALSE(is_contents_of(text.substr(0, text.size() / 2) + old.substr(text.size() / 2), 3, 2));
  for (const size_t at : {size_t{0}, text.size() / 2, text.size() - 1}) {
    std::string changed = text;
    changed[at] = '\0';
    EXPECT_FALSE(is_contents_of(changed, 3, 2)) << "byte " << at;
  }
}

}  // namespace
}  // namespace hexad::check_cluster
