// The legal layout nearest to a recipe's own, for a run that continues on fewer or more ranks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/document.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

struct NearestLayout {
  int64_t ranks;
  train::Recipe recipe;
  /// Key and new value of each key that differs from the recipe, in the order of the recipe. Empty if the recipe is
  /// legal on these ranks as it is.
  std::vector<std::pair<std::string, std::string>> changes;
};

/// Function that returns true if a recipe fits the memory of each of `ranks` ranks.
using FitsMemory = std::function<bool(const train::Recipe& recipe, int64_t ranks)>;

/// Returns the layout of at most `most_ranks` ranks that is legal (LayoutRules), fits, and is nearest to the recipe's.
/// The distance is the sum of the ratios of tp, pp, cp and the number of ranks to those of the recipe and to
/// `most_ranks`, as logarithms. So a few ranks stay idle if the alternative is another tp, pp or cp. More than half of
/// the ranks are used if there is any such layout. Of equally near layouts, returns the one with the nearest tp, then
/// pp, cp, etp and ep.
///
/// The batch, the micro-batch, the context and the ZeRO stage stay as they are, because the run has to stay the same up
/// to rounding. Placements and the pipeline (parallel.order, cp_expansion; kind, split and overlap) get their defaults
/// only if a layout has no legal ep and etp otherwise. Returns nullopt if no number of ranks has a layout. `recipe` is
/// that of `document`, completed, and has one stage.
std::optional<NearestLayout> nearest_layout(const config::Document& document, const train::Recipe& recipe,
                                            const train::Extensions& extensions, int64_t most_ranks,
                                            const FitsMemory& fits);

}  // namespace hexad::plan
