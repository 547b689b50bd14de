#include "tools/train/recipe/recipe_rules.h"

#include <algorithm>

#include "framework/base/name_pattern.h"
#include "framework/config/words.h"
#include "layers/model_size.h"

namespace hexad::train {

using base::cat;

namespace {

// Returns the names that are most similar to `pattern`, separated by commas; at most three.
std::string nearest_names(const std::string& pattern, std::vector<std::string> names) {
  constexpr size_t most = 3;
  const auto last = names.begin() + static_cast<std::ptrdiff_t>(std::min(most, names.size()));
  std::ranges::partial_sort(names, last, {},
                            [&](const std::string& name) { return config::edit_distance(pattern, name); });
  names.erase(last, names.end());
  return config::nearest_first(pattern, std::move(names));
}

}  // namespace

void check_freeze(const Recipe& recipe, const Extensions& extensions, config::Problems& problems) {
  const std::vector<std::string>& frozen = recipe.optim.freeze;
  if ((frozen.empty() && recipe.optim.muon_except.empty()) || problems.any()) return;
  layers::ModelConfig model = recipe.model;
  model.vocab = std::max<int64_t>(model.vocab, 1);  // 0 means the vocabulary of the data
  model.moe.routing = moe::Routing::model;          // other routings may read a file
  std::vector<std::string> names;
  for (const auto& parameter : layers::parameter_sizes(model, extensions)) names.push_back(parameter.name);
  const auto check = [&](const std::string& key, const std::vector<std::string>& patterns) {
    for (const std::string& pattern : patterns)
      if (std::ranges::none_of(names, [&](const std::string& name) { return base::matches(pattern, name); }))
        problems.add(key, cat("has the pattern '", config::shown(pattern),
                              "', which matches no parameter; nearest: ", nearest_names(pattern, names)));
  };
  check("optim.freeze", frozen);
  check("optim.muon_except", recipe.optim.muon_except);
  if (std::ranges::all_of(names, [&](const std::string& name) { return base::matches_any(frozen, name); }))
    problems.add("optim.freeze", "freezes all parameters; expected at least one trained parameter");
}

}  // namespace hexad::train
