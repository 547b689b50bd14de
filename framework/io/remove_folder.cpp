#include "framework/io/remove_folder.h"

#include <filesystem>
#include <vector>

namespace hexad::io {

namespace fs = std::filesystem;

void remove_folder(const std::string& folder, const base::FileWork& work, std::error_code& error) {
  error.clear();
  if (fs::is_directory(fs::symlink_status(folder, error))) {
    std::vector<fs::path> files;  // collected first, because removing files during the listing has unspecified results
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
      files.push_back(at->path());
    for (const fs::path& file : files) {
      if (!error) fs::remove_all(file, error);
      work.moved(file.string());
    }
    if (error) return;
  }
  error.clear();  // a missing folder is not an error
  fs::remove_all(folder, error);
}

}  // namespace hexad::io
