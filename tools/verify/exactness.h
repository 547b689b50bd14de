// Tolerance between a run and its oracle, by the values that the run rounds.
#pragma once

#include <string_view>

#include "tools/train/recipe/recipe.h"
#include "tools/verify/tensor_comparison.h"

namespace hexad::verify {

struct Exactness {
  std::string_view why;  // name of the bound
  double tolerance;
  Measure measure = Measure::largest;
  double least_unit = 0;  // argument of Comparer
  /// True if tokens visit the experts that the oracle chose, because rounding could change the order of scores.
  bool follows_routing() const { return measure == Measure::root_mean_square; }
};

/// Returns the bound of `run` by its precision and its wire format. With schedule.moe.wire: fp8, the oracle rounds each
/// slot's row, its result and the gradients of both, like ranks that send these rows. Runs that send other rows have
/// another bound (rounds_other_rows()).
Exactness exactness_of(const train::Recipe& run);

/// True if `run` sends the experts' rows in fp8.
bool sends_fp8(const train::Recipe& recipe);
/// True if some layout of `run` uses the routing of its oracle.
bool may_differ_by_rounding(const train::Recipe& run);

/// Returns the key of schedule.moe that makes `run` send rows that differ from the rows that the oracle rounds. Returns
/// an empty name if the rows are the same.
///   - rows: token            a rank returns the weighted sum of a token's results
///   - esp_exchange: direct   every etp rank returns an addend of a result
///   - memory_reuse           gradients are sent before weighting
///   - duplicates             gradients are divided by a number of copies that is no power of two
std::string_view rounds_other_rows(const train::Recipe& run);

}  // namespace hexad::verify
