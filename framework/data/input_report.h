// Report lines on the files that were taken and the files that were left out.
#pragma once

#include <string>
#include <vector>

#include "framework/data/input_files.h"

namespace hexad::data {

/// Returns "a.txt, b.txt"; for a long list, the first three names and "...".
std::string some_of(const std::vector<std::string>& names);

/// Returns a line for every reason: "2 hidden: texts/.git/, texts/.a", "1 PNG image: texts/a.png". The last line is for
/// files that hold no text: "1 file without text: texts/b.txt".
std::vector<std::string> lines_of_skipped(const InputFiles& files);

}  // namespace hexad::data
