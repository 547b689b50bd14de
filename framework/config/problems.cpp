#include "framework/config/problems.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/config/recipe_error.h"
#include "framework/config/words.h"

namespace hexad::config {
namespace {

/// Maximum number of problems in text(). A longer text is not useful, and a malicious file could cause any number.
constexpr size_t max_listed = 50;

}  // namespace

void Problems::add(std::string_view path, std::string_view what) {
  const auto found = known_.find(path);
  base::require(found != known_.end(), "[Problems] no key ", path,
                " was read; expected a key or section of the recipe");
  if (std::ranges::any_of(list_, [&](const Problem& p) { return covers(p.path, path); })) return;
  const Known& known = found->second;
  std::string value;
  if (!known.value.empty()) value = fmt::format(" ({}{})", shown(known.value), known.written ? "" : " by default");
  list_.push_back({known.at, {}, fmt::format("{}{} {}", path, value, what), std::string(path)});
}

void Problems::add_missing(std::string_view path, std::string_view what) {
  const size_t before = list_.size();
  add(path, what);
  if (list_.size() > before) list_.back().missing = true;
}

bool Problems::good(std::initializer_list<std::string_view> paths) const {
  return std::ranges::none_of(list_, [&](const Problem& problem) {
    return std::ranges::any_of(
        paths, [&](std::string_view path) { return covers(problem.path, path) || covers(path, problem.path); });
  });
}

bool Problems::on_command_line(std::string_view path) const {
  const auto found = known_.find(path);
  return found != known_.end() && found->second.written && found->second.at.on_command_line();
}

void Problems::replace_lines(std::vector<std::string> lines) {
  base::require(lines.size() == list_.size(), "[Problems] ", lines.size(), " lines were given for ", list_.size(),
                " problems; expected one for each problem");
  for (size_t i = 0; i < lines.size(); ++i) list_[i].line = std::move(lines[i]);
}

void Problems::report(const Position& at, std::string path, std::string line) {
  list_.push_back({at, std::move(path), std::move(line)});
}

std::vector<Problems::Problem> Problems::sorted() const {
  std::vector<Problem> all = list_;
  std::ranges::stable_sort(all, [](const Problem& a, const Problem& b) { return a.at < b.at; });
  return all;
}

std::string Problems::text() const {
  const std::vector<Problem> sorted = this->sorted();
  std::string out;
  for (size_t i = 0; i < std::min(sorted.size(), max_listed); ++i)
    out += fmt::format("{}{}: {}", i == 0 ? "" : "\n", sorted[i].at.text(), sorted[i].line);
  if (sorted.size() > max_listed) out += fmt::format("\n... and {} more", sorted.size() - max_listed);
  return out;
}

void Problems::throw_if_any() const {
  if (!any()) return;
  std::vector<RecipeProblem> problems;
  for (const Problem& p : sorted()) {
    const std::string first_word = p.line.substr(0, p.line.find(' '));  // for an unknown key, the first word is the key
    problems.push_back({.source = p.at.source ? *p.at.source : "",
                        .line = p.at.line,
                        .key = !p.path.empty()   ? p.path
                               : !p.rule.empty() ? p.rule
                                                 : first_word,
                        .message = p.line});
  }
  throw RecipeError(text(), std::move(problems));
}

}  // namespace hexad::config
