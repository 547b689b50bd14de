// Keys and words of recipes that have another name now.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/config/document.h"

namespace hexad::config {

/// Key `before` of a section ("schedule.moe"), which is `now`, and words that it may hold: old, new.
struct Rename {
  std::string_view section, before, now;
  std::vector<std::pair<std::string_view, std::string_view>> words{};
};

/// Replaces old names of keys and values by the new ones, so that recipes of the previous version are read. Returns a
/// line for each, with its position, for the user. If both names are given, the later source holds: the command line's,
/// or the including file's. Throws Error(usage) with every key that one source writes under both names.
std::vector<std::string> rename_keys(Document& document, std::span<const Rename> renames);

}  // namespace hexad::config
