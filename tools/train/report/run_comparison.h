// Several runs beside each other: what `hexad report` makes of more than one, or of a folder of runs.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "framework/telemetry/sweep.h"

namespace hexad::train {

/// True if `path` is a folder and no run directory.
bool is_folder_of_runs(const std::filesystem::path& path);

/// The run directories that `arguments` name: a folder of runs stands for those below it, in the order of their
/// names, numbers by value. `warn` is told of runs below a folder that cannot be compared, which are left out.
/// Throws Error(usage) where a folder has none, and when a run is there twice.
std::vector<std::string> find_runs(const std::vector<std::string>& arguments,
                                   const std::function<void(const std::string&)>& warn);

/// Settings that the runs share, and those that differ. They are named after their folders. Throws Error(usage) when
/// one is no run directory, Error(data) when it has trained no step.
telemetry::Sweep sweep_of(const std::vector<std::string>& run_dirs);

}  // namespace hexad::train
