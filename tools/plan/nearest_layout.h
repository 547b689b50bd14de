// The legal layout nearest to a recipe's own layout, for a run that continues on fewer or more ranks.
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
  /// Key and new value of each key that changed, in the order of the recipe. Empty if the recipe is legal on these
  /// ranks without changes.
  std::vector<std::pair<std::string, std::string>> changes;
};

/// Numbers of ranks to search, both ends included.
struct RankRange {
  int64_t fewest = 1, most = 1;
};

/// Function that returns true if a recipe fits the memory of each of `ranks` ranks.
using FitsMemory = std::function<bool(const train::Recipe& recipe, int64_t ranks)>;

/// Returns the layout nearest to the recipe's layout that is legal (LayoutRules) and fits, on a number of ranks in
/// `range`. The distance is the sum of |log2| of four ratios. Three are the ratios of tp, pp and cp to their values in
/// the recipe. The fourth is the ratio of the number of ranks to `range.most`. A few ranks may therefore remain idle if
/// using them would need another tp, pp or cp. More than half of `range.most` ranks are used if a fitting layout on so
/// many ranks exists. Among equally near layouts, returns the layout with the nearest tp, then pp, cp, etp and ep.
///
/// The batch, the micro-batch, the context and the ZeRO stage do not change. Therefore, the run remains the same up to
/// rounding. Placements (parallel.order and cp_expansion) and the pipeline (kind, split and overlap) usually do not
/// change, either. These keys get their default values if a layout has no legal ep and etp with the recipe's values.
/// Returns nullopt if no number of ranks in `range` has a layout. `recipe` is the completed recipe of `document`, and
/// has one stage of training.
std::optional<NearestLayout> nearest_layout(const config::Document& document, const train::Recipe& recipe,
                                            const train::Extensions& extensions, RankRange range,
                                            const FitsMemory& fits);

}  // namespace hexad::plan
