#include "tools/scale/run_output.h"

#include <algorithm>
#include <fstream>
#include <string_view>

namespace hexad::scale {
namespace {

// Removes the program's name from the beginning of a message.
std::string_view without_program(std::string_view line) {
  constexpr std::string_view program = "hexad: ";
  return line.starts_with(program) ? line.substr(program.size()) : line;
}

constexpr std::string_view warning_mark = "warning: ";

bool is_warning(std::string_view line) { return without_program(line).starts_with(warning_mark); }

// True for messages that can name a failure, such as "hexad: rank 1: no memory", "error: no memory" and "rank 1: no
// memory". False for warnings.
bool names_failure(std::string_view line) {
  if (is_warning(line)) return false;
  if (without_program(line).size() < line.size() || line.starts_with("error")) return true;
  constexpr std::string_view rank = "rank ";
  if (!line.starts_with(rank)) return false;
  const size_t end = line.find_first_not_of("0123456789", rank.size());
  return end > rank.size() && end != line.npos && line.substr(end).starts_with(": ");
}

}  // namespace

std::string failure_line(const std::string& path) {
  std::ifstream in(path);
  std::string message, killed, before, banner;
  bool in_banner = false;
  for (std::string line; std::getline(in, line);) {
    const size_t end = line.find_last_not_of(" \t\r");
    if (end == line.npos) continue;
    line.resize(end + 1);
    if (names_failure(line)) message = line;
    if (line.starts_with("mpirun noticed")) killed = line;
    if (line.starts_with("-----"))
      in_banner = true;
    else if (!in_banner)
      before = line;
    else if (banner.empty())
      banner = line;
  }
  for (const std::string& found : {message, killed, before})
    if (!found.empty()) return found;
  return banner;
}

std::vector<std::string> warnings_in(const std::string& path) {
  constexpr size_t most = 20;  // some warnings name a step, so a run may print one for each step
  std::ifstream in(path);
  std::vector<std::string> warnings;
  for (std::string line; warnings.size() < most && std::getline(in, line);) {
    if (!is_warning(line)) continue;
    const std::string text(without_program(line).substr(warning_mark.size()));
    if (std::ranges::find(warnings, text) == warnings.end()) warnings.push_back(text);
  }
  return warnings;
}

}  // namespace hexad::scale
