#include "tools/interop/new_folder.h"

#include <unistd.h>

#include <filesystem>

#include "framework/base/atomic_file.h"
#include "framework/base/file_work.h"
#include "framework/base/path_problem.h"
#include "framework/data/file.h"
#include "framework/io/output_file.h"
#include "framework/io/remove_folder.h"
#include "tools/interop/source_folder.h"

namespace hexad::interop {

using namespace base;

namespace fs = std::filesystem;

namespace {

// Returns a path without slashes at its end. Appending a suffix then names a folder in the same parent folder.
std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

NewFolder::NewFolder(std::string target)
    : target_(without_slashes(std::move(target))), temporary_(cat(target_, ".", ::getpid(), ".tmp")) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(target_, error);
  if (fs::exists(status) && !fs::is_directory(status))
    fail(ExitCode::usage, target_, ": exists and is not a folder, expected a new or empty folder");
  if (fs::exists(status) && !fs::is_empty(target_, error))
    fail(ExitCode::usage, target_, ": is not empty, expected a new or empty folder");
  const fs::path parent = fs::absolute(target_).parent_path();
  error.clear();
  fs::create_directories(parent, error);
  if (!error && !fs::create_directory(temporary_, error) && !error)
    fail(ExitCode::resource, temporary_, ": exists already; remove it if no other import or export is running");
  if (error) fail(code_of_making(error), temporary_, ": cannot be created: ", error.message());
}

NewFolder::~NewFolder() {
  if (temporary_.empty()) return;
  std::error_code error;  // on failure, the temporary name shows the purpose of the folder
  io::remove_folder(temporary_, FileWork{}, error);
}

void NewFolder::add_folder(const std::string& name) const {
  std::error_code error;
  fs::create_directory(temporary_ + "/" + name, error);
  if (error) fail(ExitCode::resource, temporary_, "/", name, ": cannot be created: ", error.message());
}

void NewFolder::add_file(const std::string& name, std::string_view contents) const {
  io::OutputFile file(temporary_ + "/" + name);
  file.append(contents.data(), static_cast<int64_t>(contents.size()));
  file.finish();
}

void NewFolder::copy_file(const std::string& from_folder, const std::string& name, const std::string& to_folder) const {
  const std::string contents = data::read_file(checked_path(from_folder, name), max_copied_bytes);
  add_file(to_folder.empty() ? name : to_folder + "/" + name, contents);
}

void NewFolder::commit(const std::function<void(std::string_view)>& reached) {
  sync_folder(temporary_);
  std::error_code error;
  fs::rename(temporary_, target_, error);  // replaces an empty folder at target_
  if (error) fail(ExitCode::resource, temporary_, ": cannot be renamed to ", target_, ": ", error.message());
  temporary_.clear();
  try {
    if (reached) reached("folder renamed");
    sync_folder(fs::absolute(target_).parent_path().string());
  } catch (const Error& problem) {
    fail(problem.code(), target_, ": is complete, but may not survive a power cut: ", problem.what());
  }
}

}  // namespace hexad::interop
