// What is verified: a recipe in f64 with its data, and what one rank makes of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "layers/feed_forward.h"
#include "tools/hexad/recipe.h"
#include "tools/hexad/verify/comparison.h"
#include "tools/hexad/verify/variant.h"

namespace hexad::verify {

using namespace app;

class Subject {
 public:
  /// `recipe` is valid and completed; it is computed in f64, with an optim.eps of at least 1e-5. Checkpoints of runs go
  /// under `folder`. Throws Error(usage) when the model is too big to be computed many times on one machine.
  Subject(Recipe recipe, const layers::Registry& registry, int steps, std::string folder);

  /// The recipe run this way; runs that save do so in `folder`/NAME. Throws Error(usage) as `hexad train` does.
  Recipe recipe_for(const Variant& variant, const std::string& name = "run") const;
  /// The recipe on one rank, its MoE layers doing one thing after another.
  Recipe oracle_recipe() const;
  /// The rule that forbids this, without the numbers; empty for none.
  std::string illegal(const Variant& variant) const;

  const Recipe& recipe() const { return recipe_; }
  const layers::Registry& registry() const { return registry_; }
  const data::Source& source() const { return *source_; }
  /// "the recipe's data, cut further", "synthetic documents"
  const std::string& source_text() const { return source_text_; }
  int steps() const { return steps_; }
  /// Relative to Whole::unit.
  double tolerance() const { return tolerance_; }
  const std::string& folder() const { return folder_; }

 private:
  void open_data();
  Recipe recipe_for(const Variant& variant, const std::string& name, std::vector<std::string> overrides) const;

  Recipe recipe_;
  const layers::Registry& registry_;
  int steps_;
  std::string folder_;
  std::string text_;  // of the recipe, to be overridden
  double tolerance_;
  std::shared_ptr<const data::Source> source_;
  std::string source_text_;
};

/// What one rank computes from Subject::oracle_recipe().
struct Oracle {
  std::vector<Expected> steps;  // [0]: before the first; without a result and gradients
  std::string checkpoint;       // saved after the first step
};
/// Whether it leaves a checkpoint: of several processes that compute the same, one does.
enum class Saves : uint8_t { no, yes };
Oracle compute_oracle(const Subject& subject, Saves saves = Saves::yes);

}  // namespace hexad::verify
