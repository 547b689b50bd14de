#include "framework/data/staged_files.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "framework/base/atomic_file.h"
#include "framework/base/error.h"
#include "framework/base/path_problem.h"

namespace hexad::data {
using namespace base;
namespace fs = std::filesystem;

StagedFiles::StagedFiles(std::string folder)
    : folder_(std::move(folder)),
      stage_(in(cat("new.", ::getpid(), ".tmp"))),
      replaced_(in(cat("old.", ::getpid(), ".tmp"))) {
  std::error_code error;
  made_ = !fs::exists(folder_, error);
  fs::create_directories(folder_, error);
  if (error) fail(code_of_making(error), folder_, ": cannot be created: ", error.message());
  remove_leftovers();
  fs::create_directory(stage_, error);
  if (error) fail(ExitCode::resource, stage_, ": cannot be created: ", error.message());
}

void StagedFiles::remove_leftovers() const {
  std::error_code error;
  for (fs::directory_iterator at(folder_, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    const fs::directory_entry& entry = *at;
    const std::string name = entry.path().filename().string();
    const auto pid_of = [&](const char* pattern) {
      int pid = 0, end = 0;
      return std::sscanf(name.c_str(), pattern, &pid, &end) == 1 && end > 0 ? pid : 0;
    };
    const int unfinished = pid_of("new.%d.tmp%n"), pid = unfinished ? unfinished : pid_of("old.%d.tmp%n");
    const bool alive = pid != ::getpid() && (::kill(pid, 0) == 0 || errno == EPERM);
    if (pid == 0 || alive) continue;
    if (!unfinished)
      fail(ExitCode::usage, entry.path().string(), ": contains old files that an unfinished replacement moved out of ",
           folder_, "; move the files back, or remove this folder if ", folder_, " has all new files");
    std::error_code ignored;
    fs::remove_all(entry.path(), ignored);
  }
  if (error) fail(ExitCode::resource, folder_, ": cannot be listed: ", error.message());
}

StagedFiles::~StagedFiles() {
  std::error_code ignored;
  fs::remove_all(stage_, ignored);
  if (made_) fs::remove(folder_, ignored);  // fails if the folder is not empty
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
  std::error_code ignored;
  for (; !moves_.empty(); moves_.pop_back()) fs::rename(moves_.back().to, moves_.back().from, ignored);
}

void StagedFiles::commit(std::span<const std::string_view> names) {
  sync_folder(stage_);
  std::error_code error;
  fs::create_directory(replaced_, error);
  if (error) fail(ExitCode::resource, replaced_, ": cannot be created: ", error.message());
  try {
    for (std::string_view name : names)
      if (fs::exists(fs::symlink_status(in(name)))) move(in(name), (fs::path(replaced_) / name).string());
    for (auto name = names.rbegin(); name != names.rend(); ++name)
      if (fs::exists(path(*name))) move(path(*name), in(*name));
  } catch (...) {
    undo();
    fs::remove(replaced_, error);  // fails, which is ignored, unless all files have been moved back
    throw;
  }
  sync_folder(folder_);
  fs::remove_all(replaced_, error);
}

}  // namespace hexad::data
