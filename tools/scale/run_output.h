// Output of the launcher and of rank 0 in the runs of an experiment.
#pragma once

#include <string>
#include <vector>

namespace hexad::scale {

/// Returns the line of the output in `path` that says why the run failed. It is the first of these lines that exists:
/// 1. the last message of the program
/// 2. mpirun's line about a killed rank
/// 3. the last line before mpirun's first banner
/// 4. the first line of this banner
///
/// Returns an empty text if the file has none of these lines.
std::string failure_line(const std::string& path);

/// Returns the distinct warnings in the output in `path`, without the word "warning"; at most the first 20.
std::vector<std::string> warnings_in(const std::string& path);

}  // namespace hexad::scale
