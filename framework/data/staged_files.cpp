#include "framework/data/staged_files.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "framework/base/atomic_file.h"
#include "framework/base/error.h"

namespace hexad::data {
using namespace base;
namespace fs = std::filesystem;

StagedFiles::StagedFiles(std::string folder)
    : folder_(std::move(folder)),
      stage_(in(cat("new.", ::getpid(), ".tmp"))),
      replaced_(in(cat("old.", ::getpid(), ".tmp"))),
      outdated_(in(cat("done.", ::getpid(), ".tmp"))) {
  remove_leftovers();
  std::error_code error;
  if (!fs::create_directory(stage_, error))
    fail(ExitCode::resource, stage_, ": cannot be created: ",
         error ? error.message() : "an earlier process left this folder, which could not be removed; remove it");
}

void StagedFiles::remove_leftovers() const {
  std::vector<fs::path> unneeded;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    const std::string path = at->path().string(), name = at->path().filename().string();
    const auto matches = [&](const char* pattern) {
      int pid = 0, end = 0;
      return std::sscanf(name.c_str(), pattern, &pid, &end) == 1 && end == static_cast<int>(name.size());
    };
    if (matches("old.%d.tmp%n"))
      fail(ExitCode::usage, path, ": contains old files that an unfinished replacement moved out of ", folder_,
           "; move the files back, or remove this folder if ", folder_, " has all new files");
    if (matches("new.%d.tmp%n") || matches("done.%d.tmp%n")) unneeded.push_back(at->path());
  }
  if (error) fail(ExitCode::resource, folder_, ": cannot be listed: ", error.message());
  for (const fs::path& path : unneeded) fs::remove_all(path, error);  // a folder that remains is harmless
}

StagedFiles::~StagedFiles() {
  std::error_code ignored_error;
  fs::remove_all(stage_, ignored_error);
}

std::string StagedFiles::in(std::string_view name) const { return (fs::path(folder_) / name).string(); }

std::string StagedFiles::path(std::string_view name) const { return (fs::path(stage_) / name).string(); }

void StagedFiles::move(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail(ExitCode::resource, from, ": cannot be renamed to ", to, ": ", error.message());
  moves_.push_back({from, to});
}

void StagedFiles::undo() noexcept {
  std::error_code ignored_error;
  for (; !moves_.empty(); moves_.pop_back()) fs::rename(moves_.back().to, moves_.back().from, ignored_error);
}

void StagedFiles::commit(std::span<const std::string_view> names,
                         const std::function<void(std::string_view)>& reached) {
  sync_folder(stage_);
  std::error_code error;
  fs::create_directory(replaced_, error);
  if (error) fail(ExitCode::resource, replaced_, ": cannot be created: ", error.message());
  try {
    for (std::string_view name : names)
      if (fs::exists(fs::symlink_status(in(name)))) move(in(name), (fs::path(replaced_) / name).string());
    for (auto name = names.rbegin(); name != names.rend(); ++name)
      if (fs::exists(path(*name))) move(path(*name), in(*name));
    move(replaced_, outdated_);  // the old files are no longer needed
  } catch (...) {
    undo();
    fs::remove(replaced_, error);  // fails harmlessly if a file has not been moved back
    throw;
  }
  try {
    if (reached) reached("files moved");
    sync_folder(folder_);
  } catch (const Error& problem) {
    fs::remove(outdated_, error);  // fails harmlessly if there are old files
    fail(problem.code(), folder_, ": has the new files, but they may not survive a power cut: ", problem.what(),
         fs::exists(outdated_, error) ? cat("; the old files are in ", outdated_, ", which can be removed") : "");
  }
  fs::remove_all(outdated_, error);
}

}  // namespace hexad::data
