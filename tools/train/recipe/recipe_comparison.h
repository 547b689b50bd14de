// Compares recipes of two starts of a run, or of several runs.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "framework/config/problems.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Returns a line such as "model.layers: 2 -> 4" for each changed key that must not change during a run. These keys are
/// train.seed, optim.name, optim.muon_except, and all keys of `model` except prediction_weight. In a recipe with
/// stages, the model's context, rotary_theta, yarn and rotary_scaling may change. A bias that is `auto` counts as its
/// resulting value. Without shared experts, model.moe.shared_hidden may change.
std::vector<std::string> changes_of_model(const Recipe& before, const Recipe& now);
/// Returns a line such as "data.packing: isolated -> joined" for each changed key of `data`, except keys for paths,
/// checks and order. Weights of a mixture that give equal shares, such as 9:1 and 0.9:0.1, count as equal.
std::vector<std::string> changes_of_data(const Recipe& before, const Recipe& now);
/// Returns a line such as "optim.lr: 0.01 -> 0.02" for each changed key. Ignores run.dir, because a run may be moved,
/// and train.threads, because it depends on the number of ranks. Compares train.init_from as absolute paths. If the
/// recipes have different numbers of stages, compares only the stages that both recipes have. Then also adds a line
/// with the two numbers of stages.
std::vector<std::string> changes_of_recipe(const Recipe& before, const Recipe& now);

/// Compares the learning rate of the first step after `step` in two recipes: `before` of the checkpoint, and `now` of
/// the run that continues from it. Returns a line with both values if the second differs from the first by more than
/// 5%; otherwise an empty text.
std::string learning_rate_jump(const Recipe& before, const Recipe& now, int64_t step);

/// Recipe of a run, perhaps written by another version of this program. Comparisons omit keys that cannot be read, and
/// run.dir, which differs between all runs.
class RecordedRecipe {
 public:
  explicit RecordedRecipe(const std::filesystem::path& path);

  /// Returns the recipe, in which keys that cannot be read have their defaults.
  const Recipe& recipe() const { return recipe_; }
  /// Returns the value of each key that was read, by key path.
  std::map<std::string, std::string> settings() const;
  /// Returns a line for each key that differs in `other`, and a line for each part of `other` that cannot be compared.
  std::vector<std::string> differences_to(const RecordedRecipe& other) const;

 private:
  /// True if the key `path` was read.
  bool read(const std::string& path) const;

  Recipe recipe_;
  std::vector<config::Problems::Problem> unread_;
};

}  // namespace hexad::train
