// Tolerance for differences between a run and its oracle. The tolerance depends on the values that the run rounds.
#pragma once

#include <string_view>

#include "tools/train/recipe/recipe.h"
#include "tools/verify/tensor_comparison.h"

namespace hexad::verify {

struct Exactness {
  std::string_view why;  // name of the tolerance
  double tolerance;
  Measure measure = Measure::largest;
  double least_unit = 0;  // argument of Comparer
  /// True if the run uses the oracle's routing instead of its own, because rounding could change the order of scores.
  bool follows_routing() const { return measure == Measure::root_mean_square; }
};

/// Returns the tolerance for the precision and the wire format of `run`. With schedule.moe.wire: fp8, the oracle rounds
/// the rows that ranks usually send: each slot's row, its result, and the gradients of both. Runs that send other rows
/// (rounds_other_rows()) have a larger tolerance.
Exactness exactness_of(const train::Recipe& run);

/// True if runs of `recipe` send the experts' rows in fp8.
bool sends_fp8(const train::Recipe& recipe);
/// True if some layout of `run` may differ from the oracle by rounding, and therefore uses the oracle's routing.
bool may_differ_by_rounding(const train::Recipe& run);

/// Returns the key of schedule.moe that makes `run` send other rows than those that the oracle rounds. Returns an empty
/// name if the rows are the same.
///   - rows: token            a rank returns the weighted sum of a token's results
///   - esp_exchange: direct   every etp rank returns a partial sum of a result
///   - memory_reuse           gradients are sent before weighting
///   - duplicates             gradients are divided by a number of copies that is no power of two
std::string_view rounds_other_rows(const train::Recipe& run);

}  // namespace hexad::verify
