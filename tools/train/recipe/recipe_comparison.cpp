#include "tools/train/recipe/recipe_comparison.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "framework/base/absolute_path.h"
#include "framework/config/typed_recipe.h"
#include "framework/data/mixture_division.h"
#include "optim/lr_schedule.h"
#include "tools/train/recipe/renamed_keys.h"

namespace hexad::train {

using base::cat;

std::vector<std::string> changes_of_model(const Recipe& before, const Recipe& now) {
  std::vector<std::string> changes;
  layers::ModelConfig was = before.model;
  if (!now.stages.empty()) {
    was.context = now.model.context;
    was.rotary_theta = now.model.rotary_theta, was.yarn = now.model.yarn;
    was.rotary_scaling = now.model.rotary_scaling;
  }
  const layers::ModelConfig& is = now.model;
  was.prediction_weight = is.prediction_weight;  // this key may change during a run, as in DeepSeek-V3
  if (was.has_qkv_bias() == is.has_qkv_bias()) was.qkv_bias = is.qkv_bias;
  if (was.has_o_bias() == is.has_o_bias()) was.o_bias = is.o_bias;
  if (was.has_expert_bias() == is.has_expert_bias()) was.moe.expert_bias = is.moe.expert_bias;
  if (was.moe.has_selection_bias() == is.moe.has_selection_bias()) was.moe.selection_bias = is.moe.selection_bias;
  if (is.moe.shared_experts == 0) was.moe.shared_hidden = is.moe.shared_hidden;  // no expert has this width
  for (const std::string& line : config::differences(was, is)) changes.push_back("model." + line);
  if (before.train.seed != now.train.seed)
    changes.push_back(cat("train.seed: ", before.train.seed, " -> ", now.train.seed));
  if (before.optim.name != now.optim.name)
    changes.push_back(cat("optim.name: ", before.optim.name, " -> ", now.optim.name));
  // The patterns of muon_except determine which optimizer states a parameter has, so they must not change.
  for (const std::string& line : config::differences(before.optim, now.optim))
    if (line.starts_with("muon_except:")) changes.push_back("optim." + line);
  return changes;
}

std::vector<std::string> changes_of_data(const Recipe& before, const Recipe& now) {
  data::DataConfig was = before.data;
  const data::DataConfig& is = now.data;
  was.dataset = is.dataset, was.check = is.check, was.shuffle = is.shuffle;
  for (size_t i = 0; i < std::min(was.mixture.size(), is.mixture.size()); ++i)
    was.mixture[i].dataset = is.mixture[i].dataset;
  const size_t parts = is.mixture.size();
  if (parts > 1 && was.mixture.size() == parts &&
      data::MixtureDivision(was.weights()) == data::MixtureDivision(is.weights()))  // equal, such as 9:1 and 0.9:0.1
    was.mixture = is.mixture;
  std::vector<std::string> changes;
  for (const std::string& line : config::differences(was, is)) changes.push_back("data." + line);
  return changes;
}

std::vector<std::string> changes_of_recipe(const Recipe& before, const Recipe& now) {
  Recipe was = before;
  was.train.threads = now.train.threads;
  was.run.dir = now.run.dir;
  // Compares absolute paths, because a checkpoint stores the absolute path, but a recipe may have a relative one.
  if (base::absolute_path(was.train.init_from) == base::absolute_path(now.train.init_from))
    was.train.init_from = now.train.init_from;
  if (was.stages.size() == now.stages.size()) return config::differences(was, now);
  // Compares only the stages that both recipes have, because a stage of only one recipe would add a line for each key.
  Recipe is = now;
  const auto common = static_cast<std::ptrdiff_t>(std::min(was.stages.size(), is.stages.size()));
  for (Recipe* r : {&was, &is}) r->stages.erase(r->stages.begin() + common, r->stages.end());
  std::vector<std::string> changes = config::differences(was, is);
  changes.push_back(cat("stages: ", before.stages.size(), " -> ", now.stages.size()));
  return changes;
}

std::string learning_rate_jump(const Recipe& before, const Recipe& now, int64_t step) {
  const int64_t next = step + 1;
  const double was = optim::learning_rate(before.optim, next, before.train.steps);
  const double is = optim::learning_rate(now.optim, next, now.train.steps);
  if (std::abs(is - was) <= 0.05 * was) return {};
  std::vector<std::string> reasons;
  for (const std::string& line : config::differences(before.optim, now.optim)) reasons.push_back("optim." + line);
  if (before.train.steps != now.train.steps)
    reasons.push_back(fmt::format("train.steps: {} -> {}", before.train.steps, now.train.steps));
  return fmt::format("the learning rate of step {} is {:.4g}; without these changes it would be {:.4g}{}: {}", next, is,
                     was, was > 0 ? fmt::format(" (a sudden change by a factor of {:.3g})", is / was) : "",
                     fmt::join(reasons, ", "));
}

RecordedRecipe::RecordedRecipe(const std::filesystem::path& path) {
  auto document = config::load(path);
  rename_keys(document);
  config::Problems problems;
  recipe_ = config::read<Recipe>(document, problems);
  recipe_.run.dir.clear();
  unread_ = problems.list();
}

bool RecordedRecipe::read(const std::string& path) const {
  return std::ranges::none_of(
      unread_, [&](const auto& u) { return !u.path.empty() && (path == u.path || path.starts_with(u.path + ".")); });
}

std::map<std::string, std::string> RecordedRecipe::settings() const {
  std::map<std::string, std::string> all;
  for (const config::Setting& s : config::settings(recipe_))
    if (read(s.path)) all[s.path] = s.value;
  return all;
}

std::vector<std::string> RecordedRecipe::differences_to(const RecordedRecipe& other) const {
  std::vector<std::string> lines = config::differences(recipe_, other.recipe_);
  std::erase_if(lines, [&](const std::string& line) {
    const std::string path = line.substr(0, line.find(": "));
    return !read(path) || !other.read(path);
  });
  for (const auto& u : other.unread_) lines.push_back(fmt::format("not compared: {}: {}", u.at.text(), u.line));
  return lines;
}

}  // namespace hexad::train
