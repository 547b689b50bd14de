#include "tools/interop/new_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "framework/base/atomic_file.h"
#include "framework/base/path_problem.h"
#include "framework/data/file.h"
#include "framework/io/output_file.h"
#include "framework/io/remove_folder.h"
#include "tools/interop/source_folder.h"

namespace hexad::interop {

using namespace base;

namespace fs = std::filesystem;

namespace {

constexpr int64_t copied_at_once = int64_t{4} << 20;

// Returns a path without slashes at its end. The path with a suffix then names a folder in the same parent folder.
std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// Returns an absolute path without ".", ".." and links. The path may not exist yet.
std::string path_of_target(const std::string& target) {
  std::error_code error;
  const fs::path absolute = fs::absolute(target, error);
  const fs::path resolved = error ? fs::path() : fs::weakly_canonical(absolute, error);
  if (error) fail(creation_exit_code(error), target, ": cannot be created: ", error.message());
  return without_slashes(resolved.string());
}

// True if a folder exists and is on another file system than its parent folder.
bool is_mount_point(const std::string& folder) {
  struct stat own {
  }, above{};
  if (::stat(folder.c_str(), &own) != 0) return false;
  return folder == "/" || (::stat(fs::path(folder).parent_path().c_str(), &above) == 0 && own.st_dev != above.st_dev);
}

}  // namespace

NewFolder::NewFolder(const std::string& target, FileWork work) : work_(std::move(work)) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(without_slashes(target), error);
  if (fs::exists(status) && !fs::is_directory(status))
    fail(ExitCode::usage, target, ": exists and is not a folder, expected a new or empty folder");
  target_ = path_of_target(target);
  const bool is_working_directory = target_ == fs::current_path(error).string();
  if (is_working_directory || is_mount_point(target_))
    fail(ExitCode::usage, target, ": is ", is_working_directory ? "the working directory" : "a mount point",
         ", which cannot be replaced; expected a new folder, for example ", without_slashes(target), "/model");
  if (fs::is_directory(target_, error) && !fs::is_empty(target_, error))
    fail(ExitCode::usage, without_slashes(target), ": is not empty, expected a new or empty folder");
  temporary_ = cat(target_, ".", ::getpid(), temporary_suffix);
  error.clear();
  fs::create_directories(fs::path(target_).parent_path(), error);
  const bool is_new = !error && fs::create_directory(temporary_, error);
  if (is_new) return;
  const std::string path = std::exchange(temporary_, "");
  if (!error)
    fail(ExitCode::resource, path, ": exists already; remove this folder if no other import or export is running");
  fail(creation_exit_code(error), path, ": cannot be created: ", error.message());
}

NewFolder::~NewFolder() {
  if (temporary_.empty()) return;
  std::error_code error;  // ignored: a folder that remains is recognizable by its temporary name
  io::remove_folder(temporary_, FileWork{}, error);
}

void NewFolder::add_folder(const std::string& name) const {
  std::error_code error;
  fs::create_directory(temporary_ + "/" + name, error);
  if (error) fail(ExitCode::resource, temporary_, "/", name, ": cannot be created: ", error.message());
}

void NewFolder::add_file(const std::string& name, std::string_view contents) const {
  io::OutputFile file(temporary_ + "/" + name, work_);
  file.append(contents.data(), static_cast<int64_t>(contents.size()));
  file.finish();
}

void NewFolder::copy_file(const std::string& from_folder, const std::string& name, const std::string& to_folder) const {
  const data::ReadFile from(companion_path(from_folder, name));
  const std::string to = to_folder.empty() ? name : to_folder + "/" + name;
  const size_t slash = to.rfind('/');
  if (name.find('/') != name.npos) add_folder(to.substr(0, slash));
  io::OutputFile file(temporary_ + "/" + to, work_);
  std::vector<char> piece(std::min(copied_at_once, from.size()));
  for (int64_t done = 0; done < from.size();) {
    const int64_t count = std::min(copied_at_once, from.size() - done);
    from.read_at(done, piece.data(), count);
    file.append(piece.data(), count);
    done += count;
  }
  file.finish();
  if (slash != to.npos) sync_folder(temporary_ + "/" + to.substr(0, slash));
}

void NewFolder::commit(const std::function<void(std::string_view)>& reached) {
  sync_folder(temporary_);
  std::error_code error;
  fs::rename(temporary_, target_, error);  // replaces an empty folder at target_
  if (error) fail(ExitCode::resource, temporary_, ": cannot be renamed to ", target_, ": ", error.message());
  temporary_.clear();
  try {
    if (reached) reached("folder renamed");
    sync_folder(fs::path(target_).parent_path().string());
  } catch (const Error& problem) {
    fail(problem.code(), target_, ": is complete, but may not survive a power cut: ", problem.what());
  }
}

}  // namespace hexad::interop
