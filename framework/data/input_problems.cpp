#include "framework/data/input_problems.h"

#include <algorithm>

#include "framework/base/escaped.h"

namespace hexad::data {

using namespace base;

void InputProblems::add(ExitCode code, const std::string& line, const std::vector<std::string>& remedies) {
  if (code == ExitCode::usage) code_ = code;
  lines_.push_back(escaped(line));  // escaped, because names of files may contain line breaks
  for (const std::string& remedy : remedies)
    if (!remedy.empty() && std::ranges::find(remedies_, remedy) == remedies_.end()) remedies_.push_back(remedy);
}

void InputProblems::throw_if_any() const {
  constexpr size_t most = 100;
  if (lines_.empty()) return;
  std::string text = lines_.front();
  if (lines_.size() > 1) {
    text = cat(lines_.size(), " problems of the input:");
    for (size_t i = 0; i < std::min(lines_.size(), most); ++i) text += "\n  " + lines_[i];
    if (lines_.size() > most) text += cat("\n  ... and ", lines_.size() - most, " more");
  }
  const char* separator = lines_.size() > 1 ? "\n" : "; ";
  for (const std::string& remedy : remedies_) text += separator + remedy;
  throw Error(code_, text);
}

}  // namespace hexad::data
