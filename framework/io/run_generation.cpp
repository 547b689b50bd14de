#include "framework/io/run_generation.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

#include "framework/base/atomic_file.h"
#include "framework/base/error.h"
#include "framework/base/escaped.h"
#include "framework/base/parsed_number.h"
#include "framework/base/utf8.h"
#include "framework/io/file_lock.h"

namespace hexad::io {

using namespace base;

namespace {

constexpr std::chrono::milliseconds between_tries{20};

/// Returns the number in the file; 0 if there is no file. Throws Error(resource) if the file cannot be read, and
/// Error(data) if it does not contain an integer of at least 1. Each call opens the file again, so that a network file
/// system reads the current contents from the server.
int64_t read_number(const std::string& path) {
  std::ifstream in(path);
  std::string text;
  if (!std::getline(in, text) && !in.eof()) {  // an empty file, for which eof() is true, is refused below
    std::error_code error;
    if (!std::filesystem::exists(path, error) && !error) return 0;
    fail(ExitCode::resource, path, ": cannot be read", error ? cat(": ", error.message()) : "");
  }
  const auto number = parsed_number<int64_t>(text);
  if (!number || *number < 1)
    fail(ExitCode::data, path, ": contains '", escaped(valid_utf8(text.substr(0, 40))),
         "', expected an integer of at least 1; if no job uses this run directory, remove the file");
  return *number;
}

FileLock lock_within(const std::string& folder, std::chrono::milliseconds patience) {
  const std::string path = folder + "/generation.lock";
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    std::optional<FileLock> lock = FileLock::take(path, FileLock::Mode::exclusive, /*create=*/true);
    if (lock) return std::move(*lock);
    if (std::chrono::steady_clock::now() >= end)
      fail(ExitCode::usage, path, ": held by another job for ", std::chrono::duration<double>(patience).count(),
           " s, expected less than a second: the job is saving or starting in this run directory; wait until that "
           "job has ended");
    std::this_thread::sleep_for(between_tries);
  }
}

}  // namespace

RunGeneration::RunGeneration(std::string run_directory, int64_t number)
    : folder_(std::move(run_directory)), number_(number) {
  require(number >= 1, "[run generation] number is ", number, "; expected at least 1");
}

RunGeneration RunGeneration::take(const std::string& run_directory, std::chrono::milliseconds patience) {
  const FileLock lock = lock_within(run_directory, patience);
  const std::string path = run_directory + "/generation";
  const int64_t number = read_number(path) + 1;
  write_file(path, cat(number, "\n"));
  return {run_directory, number};
}

void RunGeneration::require_visible(const std::string& node, std::chrono::milliseconds patience) const {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const bool is_last = std::chrono::steady_clock::now() >= end;
    int64_t seen = 0;
    try {
      seen = read_number(path());
    } catch (const Error&) {
      if (is_last) throw;  // on a network file system, reads may fail for a moment after another node replaced the file
    }
    if (seen == number_) return;
    if (seen > number_) return require_current();
    if (is_last)
      fail(ExitCode::resource, path(), ": ", seen > 0 ? cat("is ", seen) : "does not exist", " on node ", node,
           ", expected ", number_,
           ", which rank 0 has written on its node; choose a run.dir on a file system that all nodes share");
    std::this_thread::sleep_for(between_tries);
  }
}

void RunGeneration::require_current() const {
  const int64_t newest = read_number(path());
  if (newest == number_) return;
  const std::string found = newest > 0 ? cat("is ", newest) : "was removed";
  fail(ExitCode::usage, path(), ": ", found, ", expected ", number_, ", the number of this job's start: another job ",
       newest > 0 ? "has" : "may have",
       " taken over the run directory; this job ends, because two jobs must not write to one run directory");
}

void RunGeneration::require_not_superseded() const {
  try {
    require_current();
  } catch (const Error& error) {
    if (error.code() == ExitCode::usage) throw;
  }
}

void RunGeneration::run_if_current(const std::function<void()>& write) const {
  const FileLock lock = lock_within(folder_, std::chrono::seconds(20));
  require_current();
  write();
}

}  // namespace hexad::io
