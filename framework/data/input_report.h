// Lines for people: the files that were taken, and those that were not.
#pragma once

#include <string>
#include <vector>

#include "framework/data/input_files.h"

namespace hexad::data {

/// "a.txt, b.txt", or the first three of a long list and "...".
std::string some_of(const std::vector<std::string>& names);

/// A line for every reason: "2 hidden: texts/.git/, texts/.a", "1 PNG image: texts/a.png".
std::vector<std::string> lines_of_skipped(const InputFiles& files);

}  // namespace hexad::data
