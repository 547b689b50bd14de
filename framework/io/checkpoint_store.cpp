#include "framework/io/checkpoint_store.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "framework/base/atomic_file.h"
#include "framework/base/escaped.h"
#include "framework/base/parsed_number.h"
#include "framework/base/utf8.h"
#include "framework/data/file.h"
#include "framework/io/remove_folder.h"

namespace hexad::io {

using namespace base;

namespace fs = std::filesystem;

namespace {

constexpr std::string_view prefix = "step-";

std::optional<int64_t> number(std::string_view text) {
  const auto value = parsed_number<int64_t>(text);
  return value && *value >= 0 ? value : std::nullopt;
}

std::string folder_name(int64_t step) { return fmt::format("{}{:08}", prefix, step); }

std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto step = number(name.substr(prefix.size()));
  return step && folder_name(*step) == name ? step : std::nullopt;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator at(folder, error);
  if (error == std::errc::no_such_file_or_directory) return names;
  for (; !error && at != fs::directory_iterator(); at.increment(error)) names.push_back(at->path().filename().string());
  if (error) fail(ExitCode::data, folder, ": cannot be listed: ", error.message());
  std::ranges::sort(names);
  return names;
}

}  // namespace

Resume Resume::parse(std::string_view text) {
  if (text == "auto") return {Mode::automatic, 0};
  if (text == "none") return {Mode::none, 0};
  const auto step = number(text);
  if (!step) fail(ExitCode::usage, "resume is '", text, "', expected auto, none or a step");
  return {Mode::step, *step};
}

CheckpointStore::CheckpointStore(std::string folder, StoreOptions options)
    : folder_(std::move(folder)), options_(std::move(options)) {
  require(options_.keep >= 0, "[checkpoint] keep is ", options_.keep, "; expected at least 0");
}

std::string CheckpointStore::path(int64_t step) const { return folder_ + "/" + folder_name(step); }

std::string CheckpointStore::unfinished_path(int64_t step) const {
  const std::string mark = options_.generation ? cat(".", options_.generation->number()) : "";
  return cat(path(step), mark, unfinished_suffix);
}

std::vector<int64_t> CheckpointStore::steps() const {
  std::vector<int64_t> steps;
  for (const std::string& name : names_in(folder_)) {
    if (const auto step = step_of(name)) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

Checkpoint CheckpointStore::open(int64_t step, Check check) const {
  Checkpoint checkpoint = Checkpoint::open(path(step), check, options_.work);
  if (checkpoint.step() != step) {
    fail(ExitCode::data, checkpoint.folder(), ": contains step ", checkpoint.step(), ", expected ", step,
         ", the step in its name; rename the folder back");
  }
  return checkpoint;
}

CheckpointStore::Scan CheckpointStore::scan(Check check) const {
  Scan scan;
  for (int64_t step : steps()) {
    try {
      scan.good.push_back(open(step, check));
    } catch (const Error& error) {
      std::error_code gone;
      if (!fs::exists(path(step), gone) && !gone) continue;
      if (error.code() != ExitCode::data) throw;  // the checkpoint is not damaged; for example, memory is exhausted
      scan.problems.push_back(error.what());
      scan.newest_bad = step;
    }
  }
  // Sorts by the order of saving and not by step, because a run may have returned to an earlier step.
  std::ranges::sort(scan.good, std::greater{}, &Checkpoint::sequence);
  return scan;
}

std::optional<Checkpoint> CheckpointStore::find(const Resume& resume, Check check) const {
  return find(resume, [&](Checkpoint& checkpoint) {
    if (check == Check::full) checkpoint.verify();
  });
}

std::optional<Checkpoint> CheckpointStore::find(const Resume& resume,
                                                const std::function<void(Checkpoint&)>& verify) const {
  if (resume.mode == Resume::Mode::none) return std::nullopt;
  if (resume.mode == Resume::Mode::step) {
    const std::vector<int64_t> known = steps();
    if (!std::ranges::binary_search(known, resume.step)) {
      std::string list;
      for (int64_t step : known) list += cat(list.empty() ? "" : ", ", step);
      fail(ExitCode::data, folder_, ": has no checkpoint of step ", resume.step,
           list.empty()        ? ", nor of any other step; expected a folder with checkpoints"
           : known.size() == 1 ? ", expected step " + list
                               : ", expected one of the steps " + list);
    }
    Checkpoint checkpoint = open(resume.step, Check::quick);
    verify(checkpoint);
    return checkpoint;
  }
  Scan found = scan(Check::quick);
  check_hint(!found.good.empty() || !found.problems.empty());
  bool skipped = false;  // true if a checkpoint that was saved after `checkpoint` is damaged
  for (Checkpoint& checkpoint : found.good) {
    try {
      verify(checkpoint);
    } catch (const Error& error) {
      if (error.code() != ExitCode::data) throw;
      found.problems.push_back(error.what());
      skipped = true;
      continue;
    }
    for (const std::string& problem : found.problems) options_.warn(cat("bad checkpoint: ", problem));
    if (skipped || found.newest_bad > checkpoint.step()) {
      options_.warn(cat("using ", checkpoint.folder(), ", the newest good checkpoint, instead"));
    }
    return std::move(checkpoint);
  }
  if (found.problems.empty()) return std::nullopt;
  std::string list;
  for (const std::string& problem : found.problems) list += "\n  " + problem;
  fail(ExitCode::data, folder_, ": no checkpoint is good; to start over, set checkpoint.resume: none", list);
}

void CheckpointStore::check_hint(bool any) const {
  const std::string hint = folder_ + "/latest";
  if (!fs::exists(fs::symlink_status(hint))) {
    if (any) options_.warn(cat(hint, ": is missing; scanning for the newest checkpoint"));
    return;
  }
  std::string text;
  try {
    text = data::read_file(hint, 100);
  } catch (const Error& error) {
    return options_.warn(cat(error.what(), "; scanning for the newest checkpoint"));
  }
  if (text.ends_with('\n')) text.pop_back();
  const auto step = step_of(text);
  if (!step)
    return options_.warn(cat(hint, ": contains '", escaped(valid_utf8(text)),
                             "', which does not name a checkpoint, expected a text such as ", folder_name(100),
                             "; scanning for the newest checkpoint"));
  std::error_code error;
  if (!fs::exists(path(*step), error)) {
    options_.warn(cat(hint, ": names ", text, ", which does not exist; scanning for the newest checkpoint"));
  }
}

void CheckpointStore::require_current() const {
  if (options_.generation) options_.generation->require_current();
}

void CheckpointStore::run_if_current(const std::function<void()>& write) const {
  options_.generation ? options_.generation->run_if_current(write) : write();
}

std::vector<std::string> CheckpointStore::abandon_after(int64_t step) const {
  require_current();
  const std::vector<int64_t> known = steps();
  std::vector<std::string> abandoned;
  for (const int64_t later : std::vector(std::ranges::upper_bound(known, step), known.end())) {
    const std::string to = path(later) + std::string(abandoned_suffix);
    std::error_code error;
    remove_folder_of(later, to, error);
    require_current();
    if (!error) fs::rename(path(later), to, error);
    if (error) fail(ExitCode::resource, path(later), ": cannot be renamed to ", to, ": ", error.message());
    abandoned.push_back(to);
  }
  if (abandoned.empty()) return abandoned;
  require_current();
  const std::string hint = folder_ + "/latest";
  std::error_code error;
  if (fs::exists(path(step))) {
    write_file(hint, folder_name(step) + "\n");
  } else if (fs::remove(hint, error); error) {
    fail(ExitCode::resource, hint, ": cannot be removed: ", error.message());
  }
  sync_folder(folder_);
  return abandoned;
}

std::optional<CheckpointStore::FileVersion> CheckpointStore::version_of_manifest(int64_t step) const {
  struct stat status {};
  if (::lstat((path(step) + "/manifest.json").c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return FileVersion{status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

// Returns the remembered contents of a checkpoint's manifest. Returns null if no contents are remembered, or if the
// manifest has changed. Also returns null if another file of the checkpoint is missing or has another length.
const CheckpointStore::Known* CheckpointStore::known_good(int64_t step) const {
  const auto found = known_.find(step);
  if (found == known_.end() || version_of_manifest(step) != found->second.manifest) return nullptr;
  for (const ShardRecord& file : found->second.files) {
    const std::string name = path(step) + "/" + file.file;
    struct stat status {};
    const bool there = ::lstat(name.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size == file.bytes;
    options_.work.moved(name);
    if (!there) return nullptr;
  }
  return &found->second;
}

// Returns the checkpoints that scan() would call good after a quick check, newest first. Opens only the checkpoints for
// which known_good() returns null.
std::vector<CheckpointStore::Saved> CheckpointStore::intact_steps() const {
  std::vector<Saved> good;
  const std::vector<int64_t> all = steps();
  std::erase_if(known_, [&](const auto& entry) { return !std::ranges::binary_search(all, entry.first); });
  for (const int64_t step : all) {
    if (const Known* before = known_good(step)) {
      good.push_back({before->sequence, step});
      continue;
    }
    known_.erase(step);
    const std::optional<FileVersion> version = version_of_manifest(step);
    if (!version) continue;
    try {
      const Checkpoint checkpoint = open(step, Check::quick);
      good.push_back({checkpoint.sequence(), step});
      // Does not remember a manifest written within the last two seconds. If the file changed once more, its time might
      // stay the same.
      if (std::time(nullptr) - version->seconds > 2)
        known_.insert_or_assign(step, Known{*version, checkpoint.sequence(), checkpoint.files()});
    } catch (const Error& error) {
      if (error.code() != ExitCode::data) throw;  // the checkpoint is not damaged; for example, memory is exhausted
    }
  }
  std::ranges::sort(good, std::greater{});
  return good;
}

int64_t CheckpointStore::next_sequence() const {
  const std::vector<Saved> good = intact_steps();
  return good.empty() ? 1 : good.front().sequence + 1;
}

void CheckpointStore::clean() const {
  require_current();
  for (const std::string& name : names_in(folder_)) {
    if (!name.starts_with(prefix) && !name.starts_with("latest"))
      continue;  // ignores files that do not belong to the store
    if (!name.ends_with(unfinished_suffix) && !name.ends_with(replaced_suffix)) continue;
    require_current();  // throws if a newer job, which may own the folder, has started
    const std::string leftover = folder_ + "/" + name;
    std::error_code error;
    name.ends_with(unfinished_suffix) ? remove_folder(leftover, options_.work, error) : clean_replaced(name, error);
    if (error) fail(ExitCode::resource, leftover, ": cannot be cleaned up: ", error.message());
  }
}

// Removes the folder `name` of a replaced checkpoint if the new checkpoint exists. Otherwise restores the original name
// of the folder, because the process was killed between the two renames of the replacement.
void CheckpointStore::clean_replaced(std::string_view name, std::error_code& error) const {
  const std::string original(name.substr(0, name.size() - replaced_suffix.size()));
  const auto step = step_of(original);
  if (step && fs::exists(path(*step))) {
    remove_folder_of(*step, cat(folder_, "/", name), error);
  } else if (step) {
    fs::rename(cat(folder_, "/", name), path(*step), error);
  }
}

void CheckpointStore::remove_folder_of(int64_t step, const std::string& folder, std::error_code& error) const {
  error.clear();
  if (!fs::exists(fs::symlink_status(folder, error))) {
    if (error == std::errc::no_such_file_or_directory) error.clear();
    return;
  }
  const std::string doomed = unfinished_path(step);
  remove_folder(doomed, options_.work, error);
  require_current();
  if (!error) fs::rename(folder, doomed, error);
  if (!error) remove_folder(doomed, options_.work, error);
}

void CheckpointStore::retain() const {
  if (options_.keep == 0) return;
  require_current();
  const std::vector<Saved> good = intact_steps();
  const int64_t newest = good.empty() ? -1 : good.front().step;
  const auto first_expendable = good.begin() + std::min<std::ptrdiff_t>(std::ssize(good), options_.keep);
  std::vector<int64_t> expendable;
  for (const int64_t step : steps()) {
    const auto at = std::ranges::find(good, step, &Saved::step);
    if (at == good.end() ? step < newest : at >= first_expendable) expendable.push_back(step);
  }
  for (int64_t step : expendable) remove(step);
}

void CheckpointStore::remove(int64_t step) const {
  const std::string folder = path(step), doomed = unfinished_path(step);
  const std::string manifest = folder + "/manifest.json";
  std::error_code error;
  std::optional<FileLock> lock;
  const fs::file_type type = fs::symlink_status(manifest, error).type();
  if (type == fs::file_type::none)  // the type is unknown, so a reader may have the checkpoint open
    return options_.warn(cat(folder, ": cannot be removed: ", manifest, ": cannot be examined: ", error.message()));
  if (type == fs::file_type::regular) {  // readers refuse all other types
    try {
      lock = FileLock::take(manifest, FileLock::Mode::exclusive);
    } catch (const Error& problem) {
      return options_.warn(cat(folder, ": cannot be removed: ", problem.what()));
    }
    if (!lock) return;  // a reader has the checkpoint open
  }
  // Renames the folder first. No folder that looks like a checkpoint then remains if the process is killed during the
  // removal.
  remove_folder(doomed, options_.work, error);  // a leftover of an interrupted save or removal
  require_current();
  if (!error) fs::rename(folder, doomed, error);
  reach(options_.fault, "retention: renamed");
  if (!error) remove_folder(doomed, options_.work, error);
  if (error) options_.warn(cat(folder, ": cannot be removed: ", error.message()));
  reach(options_.fault, "retention: removed");
}

}  // namespace hexad::io
