#include "framework/config/nearest_path.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/base/escaped.h"
#include "framework/config/words.h"

namespace hexad::config {
namespace {

namespace fs = std::filesystem;

// Returns the names of the folders in `folder` that are not hidden, sorted; empty if `folder` cannot be listed.
std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code unknown;  // ignored; a broken link is one cause of an error
    const std::string name = at->path().filename().string();
    if (!name.starts_with('.') && at->is_directory(unknown)) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::string nearest_folders(const std::string& text) {
  constexpr size_t most = 3;
  std::error_code error;
  fs::path existing, rest;  // `rest` begins with the first part of the path that does not exist
  for (const fs::path& part : fs::path(text)) {
    if (part.empty()) continue;  // a slash at the end gives an empty part
    if (!rest.empty())
      rest /= part;
    else if (fs::exists(existing / part, error))
      existing /= part;
    else
      rest = part;
  }
  if (rest.empty()) return "";
  const std::vector<std::string> names = folders_in(existing.empty() ? fs::path(".") : existing);
  const std::string missing = rest.begin()->string();
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  if (const std::string_view likely = closest(missing, candidates); !likely.empty()) {
    fs::path found = existing / likely;
    for (auto part = std::next(rest.begin()); part != rest.end() && fs::exists(found / *part, error); ++part)
      found /= *part;
    return fmt::format("; did you mean '{}'?", base::escaped(found.string()));
  }
  if (names.empty() || existing.empty() || existing == existing.root_path()) return "";
  std::vector<std::string> sorted = names;
  std::ranges::stable_sort(sorted, {}, [&](const std::string& name) { return edit_distance(missing, name); });
  const size_t left = sorted.size() - std::min(sorted.size(), most);
  sorted.resize(sorted.size() - left);
  return fmt::format("; in '{}' there are: {}{}", base::escaped(existing.string()),
                     base::escaped(fmt::format("{}", fmt::join(sorted, ", "))),
                     left > 0 ? fmt::format(" and {} more", left) : "");
}

std::string accepted_below(const std::string& folder, const std::function<bool(const fs::path&)>& accepted) {
  constexpr size_t most = 5;
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (accepted(at->path())) found.push_back(base::escaped(fmt::format("'{}'", at->path().string())));
  if (found.empty()) return "";
  std::ranges::sort(found);
  const size_t left = found.size() - std::min(found.size(), most);
  found.resize(found.size() - left);
  return fmt::format("; below it: {}{}", fmt::join(found, ", "), left > 0 ? fmt::format(" and {} more", left) : "");
}

}  // namespace hexad::config
