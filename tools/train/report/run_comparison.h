// Comparison of several runs, for `hexad report` with more than one run or a folder of runs.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "framework/telemetry/sweep.h"

namespace hexad::train {

/// True if `path` is a folder, but not a run directory.
bool is_folder_of_runs(const std::filesystem::path& path);

/// Returns the run directories in `arguments`. Replaces each folder of runs by its runs, sorted by name; numbers in
/// names are compared by value. Omits a folder's runs that cannot be compared, with a warning to `warn` for each.
/// Throws Error(usage) if an argument is not a folder, if a folder has no run or cannot be read, or if a run occurs
/// twice. Throws Error(data) if all runs of a folder are omitted.
std::vector<std::string> find_runs(const std::vector<std::string>& arguments,
                                   const std::function<void(const std::string&)>& warn);

/// Compares the settings and results of runs. Each run is named after its folder, or by its path if several folders
/// have the same name. Throws Error(usage) if a folder is not a run directory. Throws Error(data) if a run has trained
/// no step.
telemetry::Sweep sweep_of(const std::vector<std::string>& run_dirs);

}  // namespace hexad::train
