// Tolerance between a run and its oracle, by what is rounded in the run.
#pragma once

#include <string_view>

#include "tools/train/recipe/recipe.h"
#include "tools/verify/tensor_comparison.h"

namespace hexad::verify {

struct Exactness {
  std::string_view why;  // name of the bound
  double tolerance;
  Measure measure = Measure::largest;
  double least_unit = 0;  // see Comparer
  /// Rounding could move scores past each other: tokens visit the experts that the oracle chose.
  bool follows_routing() const { return measure == Measure::root_mean_square; }
};

/// The bound of `run` by its precision and its wire. With schedule.moe.wire: fp8 the oracle rounds each slot's row,
/// result and their gradients, as ranks do that send those; other rows have a bound of their own (rounds_other_rows()).
Exactness exactness_of(const train::Recipe& run);

/// True if the experts' rows travel in fp8.
bool sends_fp8(const train::Recipe& recipe);
/// True if some layout of `run` follows its oracle's routing.
bool may_differ_by_rounding(const train::Recipe& run);

/// The key of schedule.moe that makes `run` send other rows than the oracle rounds; empty if none does.
///   - rows: token            a rank returns the weighted sum of a token's results
///   - esp_exchange: direct   every etp rank returns an addend of a result
///   - memory_reuse           gradients are sent before they are weighed
///   - duplicates             gradients are divided by a number of copies that is no power of two
std::string_view rounds_other_rows(const train::Recipe& run);

}  // namespace hexad::verify
