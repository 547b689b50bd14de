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

/// Returns the layout of the most ranks, at most `most_ranks`, that is legal (LayoutRules) and fits. Of several layouts
/// on these ranks, returns the one whose sizes of tp, pp, cp, etp and ep, compared in this order, are nearest to those
/// of the recipe by their ratios. So data parallelism changes first, then ep. The batch, the micro-batch, the context
/// and the ZeRO stage stay as they are, because the run has to stay the same up to rounding. Placements that a layout
/// excludes (parallel.order, cp_expansion, kind and split of the pipeline) become the defaults only if no
/// layout with the same tp, pp and cp is legal otherwise. Returns nullopt if no number of ranks has a layout.
/// `recipe` is that of `document`, completed, and has one stage.
std::optional<NearestLayout> nearest_layout(const config::Document& document, const train::Recipe& recipe,
                                            const train::Extensions& extensions, int64_t most_ranks,
                                            const FitsMemory& fits);

}  // namespace hexad::plan
