#include "tools/scale/csv_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/units.h"

namespace hexad::scale {

using base::ExitCode;
using base::fail;

namespace {

// Removes one line from the beginning of `text` and returns its cells. Quoted cells may contain commas and newlines.
// Sets `complete` to true if a newline ended the line, otherwise to false.
std::vector<std::string> take_line(std::string_view& text, bool& complete) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  complete = false;
  size_t i = 0;
  while (i < text.size() && !complete) {
    const char c = text[i++];
    if (c == '"' && quoted && i < text.size() && text[i] == '"')
      cells.back() += text[i++];
    else if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      cells.emplace_back();
    else if (c == '\n' && !quoted)
      complete = true;
    else if (c == '\r' && !quoted && i < text.size() && text[i] == '\n')
      continue;
    else
      cells.back() += c;
  }
  text.remove_prefix(i);
  return cells;
}

size_t column_of(const std::vector<std::string>& header, std::string_view name, const std::string& path) {
  const auto found = std::ranges::find(header, name);
  if (found == header.end())
    fail(ExitCode::usage, path, ":1: the column ", name, " is missing; expected a table that `hexad scale` wrote");
  return found - header.begin();
}

}  // namespace

StepSecondsByPoint steps_in_csv(std::string_view text, const std::string& path) {
  bool complete = false;
  const std::vector<std::string> header = take_line(text, complete);
  const size_t point = column_of(header, "point", path), seconds = column_of(header, "step_seconds", path);
  if (text.empty() && complete)
    fail(ExitCode::usage, path,
         ":1: no line follows the names of the columns, expected at least one line; the file is incomplete, write "
         "it again with `hexad scale`");
  StepSecondsByPoint out;
  for (int64_t line = 2; !text.empty() || !complete; ++line) {
    if (!complete)
      fail(ExitCode::usage, path, ":", line - 1,
           ": the line does not end with a newline; the file is incomplete, write it again with `hexad scale`");
    const std::vector<std::string> cells = take_line(text, complete);
    if (cells.size() != header.size())
      fail(ExitCode::usage, path, ":", line, ": the line has ", base::counted(std::ssize(cells), "cell"), "; expected ",
           header.size(), complete ? "" : "; the file is incomplete");
    if (cells[seconds].empty()) continue;
    char* end = nullptr;
    const double value = std::strtod(cells[seconds].c_str(), &end);
    if (*end != '\0' || !(value > 0) || !std::isfinite(value))
      fail(ExitCode::usage, path, ":", line, ": step_seconds (", cells[seconds], ") must be a number above 0");
    if (!out.emplace(cells[point], value).second)
      fail(ExitCode::usage, path, ":", line, ": point ", cells[point], " occurs in two lines, expected one");
  }
  return out;
}

std::string comparison_text(const Results& results, const StepSecondsByPoint& other, const std::string& path) {
  size_t width = 5;
  for (const ResultRow& row : results.rows) width = std::max(width, row.point.size());
  std::string out =
      fmt::format("{:<{}} {:>10} {:>10} {:>7}   (other: {})\n", "point", width, "here", "other", "ratio", path);
  std::vector<std::string> only_here;
  std::set<std::string> seen;
  for (const ResultRow& row : results.rows) {
    if (!row.measured) continue;
    seen.insert(row.point);
    const auto found = other.find(row.point);
    if (found == other.end()) {
      only_here.push_back(row.point);
      continue;
    }
    const double here = row.measured->step_seconds;
    out += fmt::format("{:<{}} {:>10} {:>10} {:>7}\n", row.point, width, base::precise_duration(here),
                       base::precise_duration(found->second), base::with_decimals(here / found->second, 3));
  }
  std::vector<std::string> only_there;
  for (const auto& [point, seconds] : other)
    if (!seen.contains(point)) only_there.push_back(point);
  if (!only_here.empty()) out += fmt::format("points only here: {}\n", fmt::join(only_here, ", "));
  if (!only_there.empty()) out += fmt::format("points only in {}: {}\n", path, fmt::join(only_there, ", "));
  return out;
}

}  // namespace hexad::scale
