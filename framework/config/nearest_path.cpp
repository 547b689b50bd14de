#include "framework/config/nearest_path.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>
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

// Returns a text like "a, b and 1 more" with the first `most` texts.
std::string first_of(std::vector<std::string> texts, size_t most) {
  const size_t left = texts.size() - std::min(texts.size(), most);
  texts.resize(texts.size() - left);
  return fmt::format("{}{}", fmt::join(texts, ", "), left > 0 ? fmt::format(" and {} more", left) : "");
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
  return fmt::format("; in '{}' there are: {}", base::escaped(existing.string()),
                     base::escaped(first_of(std::move(sorted), most)));
}

std::string accepted_below(const std::string& folder, const std::function<bool(const fs::path&)>& accepted) {
  constexpr size_t most = 5;
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (accepted(at->path())) found.push_back(base::escaped(fmt::format("'{}'", at->path().string())));
  if (found.empty()) return "";
  std::ranges::sort(found);
  return "; below it: " + first_of(std::move(found), most);
}

}  // namespace hexad::config
