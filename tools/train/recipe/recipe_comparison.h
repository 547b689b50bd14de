// Comparison of the recipes of two starts of a run, or of several runs.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "framework/config/problems.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Returns "model.layers: 2 -> 4" for each changed key that must stay the same in a run: the model, train.seed,
/// optim.name, optim.muon_except. The context, rotary_theta, yarn and rotary_scaling may change in a recipe with
/// stages. An automatic bias and its written value are the same.
std::vector<std::string> changes_of_model(const Recipe& before, const Recipe& now);
/// Returns "data.packing: isolated -> joined" for each changed key of the data, except paths, checks and order.
std::vector<std::string> changes_of_data(const Recipe& before, const Recipe& now);
/// Returns "optim.lr: 0.01 -> 0.02" for each changed key. Ignores run.dir, because a run may be moved, and
/// train.threads, because it depends on the number of ranks.
std::vector<std::string> changes_of_recipe(const Recipe& before, const Recipe& now);

/// Compares the learning rates of the first step after `step` under `now`, the recipe of a continued run, and under
/// `before`, the recipe of its checkpoint. Returns a line with both values if they differ by more than a twentieth;
/// otherwise an empty text.
std::string learning_rate_jump(const Recipe& before, const Recipe& now, int64_t step);

/// Recipe of a run, which may have been written by another version of this program. Comparisons omit keys that cannot
/// be read, and run.dir, which differs in all runs.
class RecordedRecipe {
 public:
  explicit RecordedRecipe(const std::filesystem::path& path);

  /// Returns the recipe, in which keys that cannot be read have their defaults.
  const Recipe& recipe() const { return recipe_; }
  /// Returns each setting that was read, by the path of its key.
  std::map<std::string, std::string> settings() const;
  /// Returns a line for each key that differs in `other`, and one for each part of `other` that cannot be compared.
  std::vector<std::string> differences_to(const RecordedRecipe& other) const;

 private:
  /// True if the key `path` was read.
  bool read(const std::string& path) const;

  Recipe recipe_;
  std::vector<config::Problems::Problem> unread_;
};

}  // namespace hexad::train
