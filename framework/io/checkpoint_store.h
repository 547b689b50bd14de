// The checkpoints of a run: finding the newest good one, and keeping the folder tidy.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/io/checkpoint.h"
#include "framework/io/write_fault.h"

namespace hexad::io {

/// The checkpoint that a run continues from.
struct Resume {
  enum class Mode : uint8_t { automatic, none, step };
  Mode mode = Mode::automatic;
  int64_t step = 0;  // with Mode::step

  /// "auto", "none" or a step; anything else throws Error(usage).
  static Resume parse(std::string_view text);
};

struct StoreOptions {
  int keep = 3;  // complete checkpoints kept; 0: all
  std::function<void(const std::string&)> warn = [](const std::string&) {};
  FaultHook fault;     // called at each file boundary of a save
  FileWork work = {};  // told what is read, written and removed
};

/// `folder` holds step-00000100/, ... and `latest`, a text file for people and scripts: it is only a hint, written
/// last. The store makes changes only on the one rank that calls it, under the RunLock of the run.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::string folder, StoreOptions options = {});

  /// The checkpoint to continue from; nothing for `none`, or for `auto` in a run without checkpoints. `auto` takes the
  /// newest good one, warning about each bad one it passes and about a `latest` that does not fit; when all are bad, or
  /// the step asked for is, it throws Error(data): starting over must be the user's decision.
  std::optional<Checkpoint> find(const Resume& resume, Check check) const;
  /// Like find(resume), but a complete checkpoint is good only if `verify` does not throw Error(data).
  std::optional<Checkpoint> find(const Resume& resume, const std::function<void(Checkpoint&)>& verify) const;
  /// Opens one step; throws Error(data).
  Checkpoint open(int64_t step, Check check) const;
  /// Steps that have a folder, ascending; complete or not.
  std::vector<int64_t> steps() const;

  /// Removes what saves that were killed left behind. Call before the first save.
  void clean() const;
  /// Removes all but the newest `keep` good checkpoints. One that anybody has open stays, and so do bad ones that are
  /// newer than the newest good one. Failures are warned about.
  void retain() const;
  /// Moves the checkpoints after `step` aside, as step-N.abandoned, for a run that went back to `step` (0: starts over)
  /// and will train the later steps again. Nothing finds these folders any more, and only a later call for the same
  /// step removes them. `latest` then names `step`. Returns the new paths. Throws Error(resource).
  std::vector<std::string> abandon_after(int64_t step) const;
  /// 1 + the highest of all good checkpoints.
  int64_t next_sequence() const;

  const std::string& folder() const { return folder_; }
  const StoreOptions& options() const { return options_; }
  std::string path(int64_t step) const;  // "<folder>/step-00000100"

  struct Scan {
    std::vector<Checkpoint> good;       // newest first: `auto` continues from the first
    std::vector<std::string> problems;  // one a bad checkpoint, naming file and tensor
  };
  /// Opens all there are; one that is removed meanwhile is neither good nor bad. Throws Error(data) when the folder
  /// cannot be listed.
  Scan scan(Check check) const;

 private:
  void check_hint(bool any) const;
  void remove(int64_t step) const;

  std::string folder_;
  StoreOptions options_;
};

/// Suffixes of folders that are not checkpoints (yet, or any more).
inline constexpr std::string_view unfinished_suffix = ".tmp";
inline constexpr std::string_view replaced_suffix = ".replaced";
inline constexpr std::string_view abandoned_suffix = ".abandoned";

}  // namespace hexad::io
