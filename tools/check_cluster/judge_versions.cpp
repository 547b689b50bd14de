#include <algorithm>
#include <functional>
#include <iterator>
#include <map>

#include <fmt/format.h>

#include "tools/check_cluster/findings.h"

namespace hexad::check_cluster {
namespace {

using base::ExitCode;
using ValueOf = std::function<const std::string&(const RankFacts&)>;

// Compares values that are not empty. If they differ, adds a finding that lists the ranks by value, the most frequent
// value first.
void compare(std::vector<Finding>& findings, const std::vector<RankReport>& ranks, ExitCode code,
             const std::string& what, const ValueOf& value) {
  std::map<std::string, std::vector<int>> by_value;
  for (const RankReport& rank : ranks)
    if (!value(rank.facts).empty()) by_value[value(rank.facts)].push_back(rank.rank);
  if (by_value.size() < 2) return;
  std::vector<std::pair<std::string, std::vector<int>>> sorted(by_value.begin(), by_value.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  std::string list;
  for (const auto& [text, with] : sorted)
    list += fmt::format("{} {} on {}", list.empty() ? ":" : ";", text, names_of(with));
  findings.push_back({.code = code, .kind = "version", .message = fmt::format("{} differs{}", what, list)});
}

std::vector<std::string> missing_in(const std::vector<std::string>& from, const std::vector<std::string>& in) {
  std::vector<std::string> missing;
  std::set_difference(from.begin(), from.end(), in.begin(), in.end(), std::back_inserter(missing));
  return missing;
}

std::string joined(const std::vector<std::string>& names) {
  constexpr size_t most = 5;
  if (names.empty()) return "nothing";
  std::string text;
  for (size_t i = 0; i < std::min(most, names.size()); ++i) text += base::cat(i == 0 ? "" : ", ", names[i]);
  return names.size() > most ? text + fmt::format(" and {} more", names.size() - most) : text;
}

// Compares each list of libraries with the most frequent list.
void compare_libraries(std::vector<Finding>& findings, const std::vector<RankReport>& ranks) {
  std::map<std::vector<std::string>, std::vector<int>> by_list;
  for (const RankReport& rank : ranks) by_list[rank.facts.libraries].push_back(rank.rank);
  const auto usual = std::max_element(by_list.begin(), by_list.end(),
                                      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  for (auto list = by_list.begin(); list != by_list.end(); ++list) {
    if (list == usual) continue;
    findings.push_back(
        {.code = ExitCode::done,
         .kind = "version",
         .message = fmt::format("libraries differ: apart from common libraries, {} loaded {}, but {} loaded {}",
                                names_of(list->second), joined(missing_in(list->first, usual->first)),
                                names_of(usual->second), joined(missing_in(usual->first, list->first)))});
  }
}

}  // namespace

void judge_programs(std::vector<Finding>& findings, const std::vector<RankReport>& ranks) {
  const size_t before = findings.size();
  // A run refuses to start if its ranks do not have the same program.
  compare(findings, ranks, ExitCode::usage, "the version of hexad",
          [](const RankFacts& f) -> const std::string& { return f.version; });
  if (findings.size() == before)
    compare(findings, ranks, ExitCode::usage, "the digest of the program's file",
            [](const RankFacts& f) -> const std::string& { return f.binary; });
}

void judge_versions(std::vector<Finding>& findings, const std::vector<RankReport>& ranks) {
  if (ranks.empty()) return;
  compare(findings, ranks, ExitCode::done, "the processor",
          [](const RankFacts& f) -> const std::string& { return f.processor; });
  compare(findings, ranks, ExitCode::done, "the operating system's kernel",
          [](const RankFacts& f) -> const std::string& { return f.kernel; });
  compare(findings, ranks, ExitCode::done, "the driver of the GPU",
          [](const RankFacts& f) -> const std::string& { return f.card_state.driver; });
  compare_libraries(findings, ranks);
}

}  // namespace hexad::check_cluster
