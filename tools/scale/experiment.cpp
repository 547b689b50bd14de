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
    problems.add(
        path + ".name",
        "is already the name of another axis or of the numbers of ranks; expected a unique name other than ranks");
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

// A key of the recipe that the experiment sets, and the numbers of ranks on which it is set. With to_ranks 0, there is
// no upper limit.
struct AxisKey {
  std::string key, at;  // `at`: key of the experiment
  int64_t from_ranks = 1, to_ranks = 0;
};

std::string key_of_override(const std::string& text) { return text.substr(0, text.find('=')); }

std::vector<AxisKey> keys_of(const AxisConfig& axis, size_t number) {
  std::vector<AxisKey> keys;
  const std::string path = cat("vary.", number);
  if (!axis.key.empty()) keys.push_back({axis.key, path + ".key"});
  for (size_t i = 0; i < axis.choices.size(); ++i)
    for (size_t k = 0; k < axis.choices[i].set.size(); ++k)
      keys.push_back({key_of_override(axis.choices[i].set[k]), cat(path, ".choices.", i, ".set.", k),
                      axis.choices[i].from_ranks, axis.choices[i].to_ranks});
  return keys;
}

// Adds a problem for each override of a key that the experiment sets itself, because the override would have no effect.
void check_fixed_keys(const ExperimentConfig& c, config::Problems& problems) {
  std::vector<AxisKey> keys;
  for (size_t i = 0; i < c.set.size(); ++i) keys.push_back({key_of_override(c.set[i]), cat("set.", i)});
  for (size_t i = 0; i < c.vary.size(); ++i)
    for (AxisKey& key : keys_of(c.vary[i], i)) keys.push_back(std::move(key));
  for (const AxisKey& k : keys) {
    if (k.key == "train.steps")
      problems.add(k.at, "sets train.steps; expected the keys steps and warmup_steps of the experiment instead");
    if (k.key == "run.dir") problems.add(k.at, "sets run.dir; expected the key dir of the experiment instead");
  }
}

// Adds a problem for each key that an earlier axis also sets on the same number of ranks. Without this rule, the name
// of a point would contain the values of both axes, but the point would have only one of them.
void check_keys_of_axes(const ExperimentConfig& c, config::Problems& problems) {
  const auto meet = [&c](const AxisKey& a, const AxisKey& b) {
    const auto on = [](const AxisKey& k, int64_t ranks) {
      return ranks >= k.from_ranks && (k.to_ranks == 0 || ranks <= k.to_ranks);
    };
    return a.key == b.key && std::ranges::any_of(c.ranks, [&](int64_t ranks) { return on(a, ranks) && on(b, ranks); });
  };
  for (size_t i = 0; i < c.vary.size(); ++i)
    for (const AxisKey& key : keys_of(c.vary[i], i))
      for (size_t before = 0; before < i; ++before)
        if (std::ranges::any_of(keys_of(c.vary[before], before), [&](const AxisKey& k) { return meet(k, key); })) {
          problems.add(key.at, cat("sets ", key.key, ", which the axis ", c.vary[before].name,
                                   " also sets; expected each key in one axis"));
          break;
        }
}

void check(Experiment& e) {
  const ExperimentConfig& c = e.config;
  check_overrides("set", c.set, e.problems);
  check_overrides("cluster_set", c.cluster_set, e.problems);
  if (c.cluster.empty() && !c.cluster_set.empty())
    e.problems.add("cluster_set",
                   "is given, but cluster, whose file it overrides, is empty; set cluster, or remove cluster_set");
  std::set<std::string> names{"ranks"};
  for (size_t i = 0; i < c.vary.size(); ++i) check_axis(c.vary[i], cat("vary.", i), names, e.problems);
  check_fixed_keys(c, e.problems);
  check_keys_of_axes(c, e.problems);
  if (c.scaling != Scaling::strong)
    for (size_t i = 0; i < c.ranks.size(); ++i)
      if (const int64_t least = std::ranges::min(c.ranks); c.ranks[i] % least != 0)
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
