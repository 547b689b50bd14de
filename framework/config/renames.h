// Renamed keys of recipes, and renamed words among their values.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/config/document.h"

namespace hexad::config {

/// A renamed key: in section `section`, for example "schedule.moe", the key `before` is now called `now`. An element of
/// a list is named by its index, for example in "stages.0.schedule.moe". `words` lists renamed values of the key as
/// pairs (old, new). `before` and `now` are equal if only values are renamed.
struct Rename {
  std::string_view section, before, now;
  std::vector<std::pair<std::string_view, std::string_view>> words{};
};

/// Replaces old names of keys and values by the new names, so that recipes of the previous version can be read. Returns
/// one line for the user about each replacement, with its position. If one source gives the old name of a key and
/// another source gives the new name, the later source has priority. The command line is later than files, and a file
/// is later than the files that it includes. Throws Error(usage) that lists every key for which one source gives both
/// names. All overrides count as one source.
std::vector<std::string> rename_keys(Document& document, std::span<const Rename> renames);

}  // namespace hexad::config
