// Known errors of predicted steps, as intervals around a prediction.
#pragma once

#include <string>
#include <string_view>

#include "tools/plan/cluster.h"

namespace hexad::plan {

/// Error of predictions: quantiles of measured over predicted seconds, between which 90% of new cases are expected. Of
/// n known ratios in ascending order, number k is the quantile k/(n + 1), because the expected share of new cases below
/// it is k/(n + 1). Between two ratios, the quantile is linear.
struct PredictionError {
  double low, high;               // the quantiles 0.05 and 0.95
  int cases;                      // number of known ratios
  std::string_view what, source;  // description of the cases, and the report that lists them

  /// Returns the seconds between which about 90% of measured times are expected for a prediction.
  double least(double seconds) const { return low * seconds; }
  double most(double seconds) const { return high * seconds; }
  /// Returns a prediction with its interval: "412 ms (190 to 618)". The text repeats the unit if the units differ.
  std::string text(double seconds) const;
  /// Returns a line that explains the interval, with the number of cases and their source.
  std::string explanation() const;
};

/// Returns the error of steps that are predicted on a cluster: the error on published steps if the file has a
/// description, or the error on measured passes through MoE layers if the file has only measured curves. Whole steps on
/// a measured cluster have not been compared.
const PredictionError& prediction_error(const Cluster& cluster);

}  // namespace hexad::plan
