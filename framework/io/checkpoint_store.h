// Selection of the newest good checkpoint of a run, and removal of old checkpoints.
#pragma once

#include <sys/types.h>

#include <ctime>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "framework/io/checkpoint.h"
#include "framework/io/run_generation.h"
#include "framework/io/write_fault.h"

namespace hexad::io {

/// The checkpoint from which a run should continue.
struct Resume {
  enum class Mode : uint8_t { automatic, none, step };
  Mode mode = Mode::automatic;
  int64_t step = 0;  // used only for Mode::step

  /// Parses "auto", "none" or a step. Throws Error(usage) for any other text.
  static Resume parse(std::string_view text);
};

struct StoreOptions {
  int keep = 3;  // number of good checkpoints that retain() keeps; 0: all
  std::function<void(const std::string&)> warn = [](const std::string&) {};
  FaultHook fault;                               // called at each point of a save or a retention
  FileWork work = {};                            // receives the progress of reads, writes and removals
  std::optional<RunGeneration> generation = {};  // generation of this job; none: no check for newer jobs
  int64_t page_pieces = 4096;                    // see manifest_files()
};

/// The checkpoints in a folder: step-00000100/, ..., and `latest`. `latest` is a text file for people and scripts; it
/// is only a hint and is written last. Only the rank that holds the RunLock of the run may call functions that change
/// files. These functions change no file and throw Error(usage) if StoreOptions::generation is no longer the newest
/// generation of the run. They repeat this check before they rename or remove a folder that another job may use. Not
/// thread-safe: const functions also store the contents of manifests that they read.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::string folder, StoreOptions options = {});

  /// Returns the checkpoint from which to continue; nullopt for `none`, and for `auto` if there are no checkpoints.
  /// `auto` selects the newest good checkpoint. Throws Error(data) if the requested checkpoint is missing or bad. With
  /// `auto`, throws Error(data) if all checkpoints are bad, because only the user may decide to start over. With
  /// `auto`, warns about:
  /// - every bad checkpoint that is found;
  /// - the selection if a newer checkpoint is bad;
  /// - `latest` if the file is unreadable, does not name an existing checkpoint, or is missing although there are
  ///   checkpoints.
  std::optional<Checkpoint> find(const Resume& resume, Check check) const;
  /// Like find(resume, Check::quick), but a checkpoint is also bad if `verify` throws Error(data).
  std::optional<Checkpoint> find(const Resume& resume, const std::function<void(Checkpoint&)>& verify) const;
  /// Opens the checkpoint of step `step`. Throws Error(data) if it is missing or bad.
  Checkpoint open(int64_t step, Check check) const;
  /// Returns the steps that have a folder, in ascending order. Their checkpoints may be incomplete. Throws Error(data)
  /// if the folder of the store cannot be listed.
  std::vector<int64_t> steps() const;

  /// Removes the remains of interrupted saves and removals. Restores a checkpoint that a killed save has moved aside,
  /// if the new checkpoint does not exist. Call this function before the first save. Throws Error(resource) if the
  /// cleanup fails.
  void clean() const;
  /// Removes all good checkpoints except the newest `keep`, and all bad checkpoints with a lower step than the newest
  /// good checkpoint. Does nothing if `keep` is 0. Checkpoints that a process has open are kept. Warns about each
  /// checkpoint that cannot be removed.
  void retain() const;
  /// Renames the checkpoint of each step N after `step` to step-N.abandoned. The run has returned to `step` (0: started
  /// over) and will train these steps again. Readers ignore the renamed folders. A later call that abandons step N
  /// again removes the older step-N.abandoned. Changes `latest` if a folder was renamed: writes the name of the folder
  /// of `step`, or removes `latest` if `step` has no folder. Returns the new paths. Throws Error(usage) if a newer job
  /// has started. Throws Error(resource) if a folder cannot be renamed or removed, or if `latest` cannot be written or
  /// removed.
  std::vector<std::string> abandon_after(int64_t step) const;
  /// Returns 1 + the highest sequence number of all good checkpoints; 1 if no checkpoint is good.
  int64_t next_sequence() const;

  /// Calls RunGeneration::require_current() if StoreOptions::generation is set. Throws Error(usage) if a newer job has
  /// started in the run directory.
  void require_current() const;
  /// Calls RunGeneration::run_if_current(write) if StoreOptions::generation is set, otherwise calls `write`. With a
  /// generation, no other job can start during the call if file locks work across machines.
  void run_if_current(const std::function<void()>& write) const;

  const std::string& folder() const { return folder_; }
  const StoreOptions& options() const { return options_; }
  std::string path(int64_t step) const;  // returns a path like "<folder>/step-00000100"
  /// Returns the path of the folder of a save in progress: "<folder>/step-00000100.7.tmp" for generation 7, or
  /// "<folder>/step-00000100.tmp" without a generation. With generations, two jobs never save to the same folder. An
  /// older job then never removes the folder in which a newer job saves.
  std::string unfinished_path(int64_t step) const;
  /// Removes `folder`, which belongs to `step`, if it exists. First renames `folder` to unfinished_path(step), in place
  /// of any folder that has this name. No other job uses this name. Therefore this job cannot remove a folder of a
  /// newer job that starts during the removal. Throws like require_current(). Sets `error` if the folder cannot be
  /// renamed or removed.
  void remove_folder_of(int64_t step, const std::string& folder, std::error_code& error) const;

  struct Scan {
    std::vector<Checkpoint> good;       // newest first; `auto` continues from the first
    std::vector<std::string> problems;  // one message for each bad checkpoint; names its folder or a file in it
    int64_t newest_bad = -1;            // highest step of a bad checkpoint; -1: no checkpoint is bad
  };
  /// Opens all checkpoints. Leaves out a checkpoint that is removed before it is open. Throws Error(data) if the folder
  /// cannot be listed.
  Scan scan(Check check) const;

 private:
  // Identity and version of a manifest's file. The value changes if the file is replaced.
  struct FileVersion {
    dev_t device;
    ino_t inode;
    off_t bytes;
    time_t seconds;
    long nanoseconds;
    bool operator==(const FileVersion&) const = default;
  };
  // The part of a good checkpoint's manifest that every save needs.
  struct Known {
    FileVersion manifest;
    int64_t sequence;
    std::vector<ShardRecord> files;  // shards and pages
  };
  // A good checkpoint.
  struct Saved {
    int64_t sequence, step;
    auto operator<=>(const Saved&) const = default;
  };
  void check_hint(bool any) const;
  void clean_replaced(std::string_view name, std::error_code& error) const;
  void remove(int64_t step) const;
  std::vector<Saved> intact_steps() const;
  const Known* known_good(int64_t step) const;
  std::optional<FileVersion> version_of_manifest(int64_t step) const;

  std::string folder_;
  StoreOptions options_;
  mutable std::map<int64_t, Known> known_;  // contents of manifests that intact_steps() need not read again, by step
};

/// Suffixes of folders that are not checkpoints.
inline constexpr std::string_view unfinished_suffix = ".tmp";
inline constexpr std::string_view replaced_suffix = ".replaced";
inline constexpr std::string_view abandoned_suffix = ".abandoned";

}  // namespace hexad::io
