#include <fmt/format.h>

#include "framework/base/counted.h"
#include "framework/base/units.h"
#include "tools/check_cluster/findings.h"
#include "tools/check_cluster/robust.h"

namespace hexad::check_cluster {

using base::ExitCode;

namespace {

// Returns the ranks in `listed` whose own check of the folder had no error. If a rank could not write its file, its own
// error already explains why the file is not visible to other ranks.
std::vector<int> without_own_error(const std::vector<int>& listed, const std::vector<RankReport>& ranks) {
  std::vector<int> left;
  for (const int rank : listed)
    if (const auto& folder = ranks.at(rank).folder; !folder || folder->error.empty()) left.push_back(rank);
  return left;
}

}  // namespace

void judge_folder(std::vector<Finding>& findings, const std::vector<RankReport>& ranks) {
  const auto add = [&](ExitCode code, std::string message) {
    findings.push_back({.code = code, .kind = "folder", .message = std::move(message)});
  };
  const auto& folder_0 = ranks.front().folder;
  const bool rank_0_locks = folder_0 && folder_0->error.empty() && folder_0->lock_error.empty();
  std::vector<const RankReport*> writers;
  std::vector<double> writes;
  for (const RankReport& rank : ranks) {
    if (!rank.folder) continue;
    const FolderFigure& f = *rank.folder;
    const std::string name = name_of(rank);
    if (!f.error.empty()) {
      add(ExitCode::resource, fmt::format("{}: {}", name, f.error));
      continue;
    }
    if (const auto missing = without_own_error(f.missing, ranks); !missing.empty())
      add(ExitCode::resource,
          fmt::format("{} did not see the new {} of {} within --patience; choose a folder that all nodes share", name,
                      base::plural(std::ssize(missing), "file"), names_of(missing)));
    if (const auto stale = without_own_error(f.stale, ranks); !stale.empty())
      add(ExitCode::resource,
          fmt::format("{} still sees the old contents of a replaced file of {}, expected the new contents; choose a "
                      "folder on another file system",
                      name, names_of(stale)));
    if (const auto torn = without_own_error(f.torn, ranks); !torn.empty())
      add(ExitCode::resource, fmt::format("{} sees neither the old nor the new contents of a replaced file of {}: "
                                          "rename is not atomic; choose a folder on another file system",
                                          name, names_of(torn)));
    if (f.late_seconds > largest_delay || f.stale_seconds > largest_delay)
      add(ExitCode::done,
          fmt::format("the file system is stale on {}: new files appear after {}, replaced files after {}, expected at "
                      "most 1 s",
                      name, base::precise_duration(f.late_seconds), base::precise_duration(f.stale_seconds)));
    if (f.lock_ignored && rank_0_locks)
      add(ExitCode::done,
          fmt::format("{} got a lock (flock) that {} holds: locks do not work between nodes, so only the generation "
                      "number of a run keeps two jobs from writing at the same time",
                      name, name_of(ranks.front())));
    if (!f.lock_error.empty())
      add(ExitCode::done, fmt::format("{} cannot lock files (flock): {}; only the generation number of a run keeps two "
                                      "jobs from writing at the same time",
                                      name, f.lock_error));
    if (static_cast<double>(f.free_bytes) < least_free_bytes)
      add(ExitCode::done, fmt::format("{} sees only {} of free disk space, expected at least 1 GiB", name,
                                      base::human_bytes(static_cast<double>(f.free_bytes))));
    if (f.write_seconds > longest_write)
      add(ExitCode::done, fmt::format("{} takes {} to write and fsync 1 MiB, expected at most 1 s", name,
                                      base::precise_duration(f.write_seconds)));
    writers.push_back(&rank);
    writes.push_back(f.write_seconds);
  }
  for (const Slow& slow : slow_values(writes, {.ratio = slow_disk_ratio, .least_excess = slow_disk_excess}))
    add(ExitCode::done, fmt::format("{} takes {} to write and fsync 1 MiB, {:.1f} times as long as other nodes ({})",
                                    name_of(*writers[slow.index]), base::precise_duration(writes[slow.index]),
                                    slow.times, base::precise_duration(slow.reference)));
}

}  // namespace hexad::check_cluster
