#include "tools/scale/experiment.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "framework/base/error.h"
#include "framework/config/typed_recipe.h"

namespace hexad::scale {

using base::cat;

namespace {

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// Adds a problem for each override without "key=".
void check_overrides(const std::string& path, const std::vector<std::string>& set, config::Problems& problems) {
  for (size_t i = 0; i < set.size(); ++i)
    if (const size_t equal = set[i].find('='); equal == std::string::npos || equal == 0)
      problems.add(cat(path, ".", i), "must have the form key.path=value");
}

void check_axis(const AxisConfig& axis, const std::string& path, std::set<std::string>& names,
                config::Problems& problems) {
  if (!is_name(axis.name))
    problems.add(path + ".name", "must consist of letters, digits and underscores");
  else if (!names.insert(axis.name).second)
    problems.add(path + ".name",
                 "is the name of two axes; expected unique names, and not ranks, which names the numbers of ranks");
  if (axis.values.empty() == axis.choices.empty())
    problems.add(path, axis.values.empty() ? "has neither values nor choices; expected one of them"
                                           : "has values and choices; expected one of them");
  if (!axis.key.empty() && !axis.choices.empty())
    problems.add(path + ".key", "cannot be given together with choices, because choices set keys themselves");
  for (size_t i = 0; i < axis.choices.size(); ++i) {
    const ChoiceConfig& choice = axis.choices[i];
    const std::string of_choice = cat(path, ".choices.", i);
    check_overrides(of_choice + ".set", choice.set, problems);
    if (choice.to_ranks != 0 && choice.to_ranks < choice.from_ranks)
      problems.add(of_choice + ".to_ranks",
                   cat("must be at least from_ranks (", choice.from_ranks, "), or 0 for any number"));
  }
}

void check(Experiment& e) {
  const ExperimentConfig& c = e.config;
  check_overrides("set", c.set, e.problems);
  check_overrides("cluster_set", c.cluster_set, e.problems);
  if (c.cluster.empty() && !c.cluster_set.empty())
    e.problems.add("cluster_set", "is given, but cluster, whose file it overrides, is empty");
  std::set<std::string> names{"ranks"};
  for (size_t i = 0; i < c.vary.size(); ++i) check_axis(c.vary[i], cat("vary.", i), names, e.problems);
  const std::set<int64_t> numbers(c.ranks.begin(), c.ranks.end());
  if (numbers.size() < c.ranks.size()) e.problems.add("ranks", "contains a number twice");
  if (c.scaling != Scaling::strong)
    for (size_t i = 0; i < c.ranks.size(); ++i)
      if (const int64_t least = *numbers.begin(); c.ranks[i] % least != 0)
        e.problems.add(cat("ranks.", i), cat("must be divisible by the smallest number (", least,
                                             "), because the problem grows in proportion; nearest: ",
                                             config::nearest_multiples(c.ranks[i], least)));
}

Experiment read(const config::Document& document, const std::string& path) {
  Experiment e{.path = path, .config = {}, .problems = {}};
  e.config = config::read<ExperimentConfig>(document, e.problems);
  e.problems.throw_if_any();
  check(e);
  e.problems.throw_if_any();
  return e;
}

}  // namespace

std::string Experiment::beside(const std::string& file) const {
  return (std::filesystem::path(path).parent_path() / file).lexically_normal().string();
}

Experiment load_experiment(const std::string& path, const std::vector<std::string>& overrides) {
  return read(config::load(path, overrides), path);
}

Experiment parse_experiment(std::string_view text, const std::string& path) {
  return read(config::parse(text, path), path);
}

}  // namespace hexad::scale
