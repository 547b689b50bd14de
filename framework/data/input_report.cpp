#include "framework/data/input_files.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/base/counted.h"
#include "framework/base/escaped.h"

namespace hexad::data {
namespace {

// Returns the words that follow the number of skipped files, for example "PNG images" after "3".
std::string thing(const SkippedFile& file, bool several) {
  switch (file.why) {
    case SkipReason::hidden:
      return "hidden";
    case SkipReason::excluded:
      return "left out by --exclude";
    case SkipReason::not_included:
      return "without a match in --include";
    case SkipReason::link:
      return several ? "links (not followed without --follow-links)" : "link (not followed without --follow-links)";
    case SkipReason::broken_link:
      return several ? "broken links" : "broken link";
    case SkipReason::same_file:
      return "already taken under another name";
    case SkipReason::special:
      return several ? "files that are not regular" : "file that is not regular";
    case SkipReason::output:
      return "in the output folder";
    case SkipReason::binary:
      break;
  }
  const std::string remedy = file.remedy.empty() ? "" : fmt::format(" (to extract the text: {})", file.remedy);
  return file.what + (several ? "s" : "") + remedy;
}

std::string name_with_reason(const SkippedFile& file) {
  const std::string path = base::escaped(file.path);
  if (file.what.empty() || file.why == SkipReason::binary) return path;
  if (file.why == SkipReason::link) return path + " " + base::escaped(file.what);
  return fmt::format("{} ({})", path, base::escaped(file.what));
}

}  // namespace

std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t all = 6, few = 3;
  if (names.size() <= all) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{}, ...", fmt::join(names.begin(), names.begin() + few, ", "));
}

std::vector<std::string> lines_of_skipped(const InputFiles& files) {
  std::map<std::pair<SkipReason, std::string>, std::vector<const SkippedFile*>> groups;
  for (const SkippedFile& file : files.skipped)
    groups[{file.why, file.why == SkipReason::binary ? file.what : ""}].push_back(&file);
  std::vector<std::string> lines;
  for (const auto& [key, members] : groups) {
    std::vector<std::string> names;
    for (const SkippedFile* file : members) names.push_back(name_with_reason(*file));
    lines.push_back(
        fmt::format("{} {}: {}", members.size(), thing(*members.front(), members.size() > 1), some_of(names)));
  }
  std::vector<std::string> without_text;
  for (const InputFile& file : files.taken)
    if (!file.has_text) without_text.push_back(base::escaped(file.path));
  if (!without_text.empty())
    lines.push_back(
        fmt::format("{} without text: {}", base::counted(std::ssize(without_text), "file"), some_of(without_text)));
  return lines;
}

}  // namespace hexad::data
