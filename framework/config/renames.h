// Renamed keys and words of recipes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/config/document.h"

namespace hexad::config {

/// A renamed key: in `section` ("schedule.moe"), the key `before` is now called `now`. `words` lists renamed values of
/// the key as pairs of old and new.
struct Rename {
  std::string_view section, before, now;
  std::vector<std::pair<std::string_view, std::string_view>> words{};
};

/// Replaces old names of keys and values with the new names, so that recipes of the previous version can be read.
/// Returns a line for each replacement, with its position, for the user. If both names are given, the later source
/// wins: the command line or the including file. Throws Error(usage) with every key that one source writes under both
/// names.
std::vector<std::string> rename_keys(Document& document, std::span<const Rename> renames);

}  // namespace hexad::config
